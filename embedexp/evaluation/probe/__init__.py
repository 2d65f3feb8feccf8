"""Probes: fine-tuning a backbone on labelled tasks, as GLUE and XTREME-R are measured."""
