"""Tables of the papers as they print them; tests hold the sweep files to them."""

from __future__ import annotations

MODELS = ("DeepSeekMoE-16b", "Qwen1.5-MoE-A2.7B", "OLMoE-1B-7B")
VECTORS = ("HS", "RW", "MoEE (concat)", "MoEE (sum)")


def _moee(figures: str) -> str:
    """A table of MoEE by model and vector, of its lines of figures."""
    headings = "classification|clustering|pair classification|reranking|STS|summarization"
    labels = [f"{model} · {vector}" for model in MODELS for vector in VECTORS]
    lines = zip(labels, figures.split(), strict=True)
    return "\n".join([f"row|{headings}|mean over types", *map("|".join, lines)])


TABLES: dict[str, str] = {
    "nomic_embed_v2/table7_expert_placement": """
row|2048|4096|8192
6 layers|44.13|45.36|45.89
12 layers|44.28|44.89|45.48
""",
    "nomic_embed_v2/table8_hard_negatives": """
row|FiQA|HotpotQA
Arctic Embed Large · none · 4|42.68|59.47
Arctic Embed Large · 0.95 · 4|44.98|62.75
Stella 1.5B v5 · 0.95 · 4|45.18|64.06
Stella 1.5B v5 · 0.95 · 10|45.17|64.48
""",
    "nomic_embed_v2/table9_multilingual_moe": """
row|8192 BEIR|8192 MIRACL
XLM-R Base|43.96|37.92
XLM MoE k=1|44.11|39.17
XLM MoE k=2|45.00|39.81
XLM-R Large|46.91|42.71
""",
    "nomic_embed_v2/table12_matryoshka": """
row|BEIR|Quora|SciFact|HotpotQA|NQ|FEVER|DBPedia|ClimateFEVER
768|52.86|87.95|72.89|68.53|60.41|87.17|41.44|33.38
256|49.63|87.49|66.31|63.67|56.12|84.64|37.51|29.58
""",
    "mote/table2_trained_tasks": """
row|retrieval|classification|clustering|trained tasks
IC|3.27|3.37|0.14|2.35
MoTE|5.21|3.79|-0.06|3.23
""",
    "mote/table3_unseen_tasks": """
row|reranking|pair classification|STS|summarization|unseen tasks
IC|-2.01|-0.80|||0.67
MoTE|-0.45|0.29|2.15|2.01|1.25
""",
    "mote/table4_static_vs_ta_cl": """
row|retrieval|pair classification
static|46.48|81.93
TA-CL|47.52|81.81
""",
    "mote/table5_slr_vs_tlr": """
row|retrieval|pair classification|STS|summarization|all tasks
SLR|2.35|0.97|1.59|1.65|1.33
""",
    "mote/table6_every_block": """
row|all tasks
EB|59.19
EOB|59.07
""",
    "mote/table7_expert_averaging": """
row|all tasks
IEM|58.43
EA|58.60
MoTE|59.07
""",
    "mote/figure4_5_batching": """
row|all tasks
heterogeneous|53.05
homogeneous|52.78
""",
    "mote/figure6_7_temperature": """
row|clustering|all tasks
0.03|38.60|53.22
0.06|39.20|52.78
""",
    "moee/table1_agreement": """
row|AMI|NMI|Jaccard|exact matching
RW and HS|0.29|0.29|0.06|0.4554
""",
    "moee/figure4_prompt_robustness": """
row|HS-HS|RW-RW|RW-HS
nine prompts|0.52|0.63|0.51
""",
    "moee/table3_no_prompt": _moee("""
44.79|25.87|44.34|38.13|34.54|24.51|35.36
44.06|17.53|50.59|35.94|41.11|26.22|35.91
44.93|24.15|51.88|41.20|46.82|31.17|40.03
48.74|32.83|52.12|47.88|48.34|29.89|43.30
46.41|24.31|44.43|44.91|28.36|22.65|35.18
38.99|10.55|42.26|33.53|23.97|27.44|29.46
44.81|26.75|49.79|49.23|37.93|27.61|39.35
50.70|31.35|51.87|49.82|45.75|24.00|42.25
44.23|23.79|47.56|45.60|35.44|20.94|36.26
43.54|17.66|53.12|40.91|44.68|28.68|38.10
44.62|22.83|51.64|46.58|48.84|31.67|41.03
48.54|30.67|50.93|47.77|49.45|28.77|42.69
"""),
    "moee/table4_prompt_eol": _moee("""
58.24|24.64|48.76|38.13|59.66|24.38|42.30
49.52|19.97|68.30|37.48|59.52|29.26|44.01
54.21|26.10|72.44|53.31|67.59|28.89|50.42
58.31|34.52|70.95|55.99|70.66|29.22|53.28
59.34|29.50|74.29|56.51|67.39|23.01|51.67
47.84|16.74|64.85|43.55|51.71|27.74|42.07
54.23|27.18|73.93|56.12|68.52|28.57|51.43
59.57|38.33|72.21|56.25|72.78|31.09|55.04
58.18|32.83|72.10|58.31|72.91|27.96|53.72
45.02|19.93|61.58|43.91|54.33|29.49|42.38
52.59|33.92|71.85|56.69|71.13|30.21|52.73
57.46|36.46|71.26|60.43|74.63|30.71|55.16
"""),
    "moee/table5_tokens_and_layers": """
row|STS12|STS13|STS14|STS15|STS16|mean
HS - last token, last layer|51.99|69.56|54.68|58.04|68.47|60.40
HS - last token, all layers|59.82|60.59|45.20|51.08|58.88|55.03
HS - all tokens, last layer|30.95|34.42|26.77|34.90|37.11|32.78
HS - all tokens, all layers|60.81|62.46|46.90|52.38|59.99|56.34
RW - last token|61.97|65.86|51.38|65.86|62.49|61.18
RW - all tokens|50.76|46.42|41.47|43.68|48.37|46.03
MoEE (best)|67.39|81.43|68.98|67.76|74.26|71.75
""",
    "llama_embed_nemotron/table4_losses": """
row|mean (task)|mean (type)|bitext|classification|clustering|instruction reranking|multilabel\
|pair classification|reranking|retrieval|STS
Gecko|63.45|55.86|72.58|65.12|52.29|5.28|25.46|80.68|64.21|61.20|75.87
Qwen3-Embedding|62.14|55.49|73.50|60.60|54.82|4.97|25.22|80.63|64.11|60.12|75.41
Gemini Embedding|63.83|55.90|73.13|66.28|53.04|4.76|24.70|80.74|64.26|60.28|75.96
Ours (HNs only)|64.03|56.04|72.94|66.99|52.27|5.69|24.60|80.77|64.44|60.66|75.99
""",
    "llama_embed_nemotron/table5_generators": """
row|mean (task)|classification|clustering|multilabel
No synthetic data|61.95|62.16|49.94|22.40
gpt-oss-20b|62.54|63.71|50.45|23.21
gpt-oss-120b|62.38|63.12|50.77|22.47
Mixtral-8x22B-Instruct-v0.1|62.64|63.67|50.89|22.81
Llama-3.3-70B-Instruct|62.49|63.15|50.80|22.85
Llama-4-Scout-17B-16E-Instruct|62.21|63.02|50.57|22.70
Llama-4-Maverick-17B-128E-Instruct|62.36|63.20|50.51|22.41
Mix from all models|62.89|64.39|50.95|23.37
""",
    "llama_embed_nemotron/table6_synthetic_or_in_domain": """
row|Amazon counterfactual|Czech product review|Greek legal code|Estonian valence|Tweet topic
Baseline|73.06|64.68|38.21|38.80|72.85
+1M synthetic|82.64|66.58|42.60|49.36|78.00
+75k in-domain|90.51|71.73|60.51|57.20|80.12
""",
    "llama_embed_nemotron/table7_merging": """
row|mean (task)|mean (type)|bitext|classification|clustering|instruction reranking|multilabel\
|pair classification|reranking|retrieval|STS
Individual model 1|67.27|59.36|78.45|70.17|54.11|10.28|27.86|83.25|66.84|64.99|78.27
Individual model 2|67.99|59.78|78.60|71.83|53.79|10.42|28.59|83.86|66.85|65.77|78.33
Individual model 3|68.00|59.71|79.33|71.78|54.27|9.14|28.64|83.76|66.83|64.86|78.82
Individual model 4|68.36|60.18|79.52|71.89|54.91|10.32|29.20|83.82|67.04|66.15|78.76
Individual model 5|68.38|60.05|79.37|71.87|54.12|9.48|28.72|83.91|66.85|67.33|78.83
Individual model 6|68.62|60.37|79.56|72.37|54.34|10.80|29.71|83.60|66.91|66.99|79.08
Merged|69.46|61.09|81.72|73.21|54.35|10.82|29.86|83.97|67.78|68.69|79.41
""",
    "conan_v2/table4_components": """
row|multi|eng|zh
SM|61.73|70.41|70.99
CLR|62.69|70.94|71.41
DHNM|61.81|71.50|72.09
SM+CLR|64.45|72.14|71.79
SM+DHNM|63.03|72.78|72.44
SM+CLR+DHNM|65.17|73.52|74.24
""",
    "conan_v2/table6_lora_soft_mask": """
row|without soft mask|with soft mask
LoRA r=16|72.18|72.12
LoRA r=32|72.08|72.23
LoRA r=64|71.83|72.40
Full fine-tuning|71.50|73.52
""",
    "conan_v2/table12_mask_schedule": """
row|multi|eng|zh
Linear|61.73|70.41|70.99
Accelerating|61.50|70.51|70.81
Decelerating|61.43|70.01|70.37
""",
    "conan_v1/table4_cbb_and_dhnm": """
row|average|classification|clustering|reranking|retrieval|STS|pair classification
Baseline|62.90|60.40|62.70|70.40|63.20|55.20|87.30
Vanilla|68.80|71.40|62.00|67.00|72.40|61.30|89.90
CBB|70.40|73.00|65.60|68.10|72.30|64.10|90.00
DHNM|71.20|74.40|66.20|69.00|73.80|63.50|90.40
Conan-embedding|72.62|75.03|66.33|72.76|76.67|64.18|91.66
""",
}
"""Sweep file -> headings, then rows, as the table is printed; empty where nothing was seen."""

MOEE_DETAILS: dict[str, str] = {
    "DeepSeekMoE-16b · HS · none": "20.90 43.39 24.02 37.75 47.15 29.87 42.66 "
    "30.61 49.14 27.55 57.69 49.04 39.63 25.62 26.11 43.75 45.23 25.79",
    "DeepSeekMoE-16b · RW · none": "45.22 41.38 28.75 38.63 50.36 34.14 51.98 "
    "38.44 52.37 26.49 53.32 53.39 47.79 15.33 19.72 41.97 42.65 23.21",
    "DeepSeekMoE-16b · MoEE (concat) · none": "46.26 55.88 37.90 42.37 54.19 41.20 53.66 "
    "43.06 52.64 28.02 54.12 57.27 46.48 22.94 25.35 44.10 53.43 26.06",
    "DeepSeekMoE-16b · MoEE (sum) · none": "46.41 60.58 41.50 42.85 54.98 42.33 53.70 "
    "44.36 50.32 27.52 68.39 58.99 45.25 31.44 34.22 45.26 70.79 27.58",
    "DeepSeekMoE-16b · HS · PromptEOL": "51.99 69.56 54.68 58.04 68.47 45.29 63.78 "
    "65.48 60.13 49.11 65.47 36.72 60.79 27.02 22.26 43.75 45.23 25.41",
    "DeepSeekMoE-16b · RW · PromptEOL": "61.97 65.86 51.38 65.86 62.49 53.97 57.93 "
    "56.68 57.68 35.57 55.32 76.58 60.01 21.89 18.04 46.57 42.65 23.21",
    "DeepSeekMoE-16b · MoEE (concat) · PromptEOL": "66.79 77.60 63.56 64.60 71.22 61.96 66.29 "
    "68.72 61.12 45.59 55.93 80.08 64.79 29.13 23.06 50.66 72.63 36.65",
    "DeepSeekMoE-16b · MoEE (sum) · PromptEOL": "67.39 81.43 68.98 67.76 74.26 62.09 69.98 "
    "73.41 59.32 46.86 68.76 79.20 62.70 35.77 33.27 52.93 76.17 38.88",
    "Qwen1.5-MoE-A2.7B · HS · none": "8.39 25.23 15.76 22.08 38.11 28.69 51.73 "
    "36.88 48.83 31.02 59.38 45.71 43.14 26.14 22.48 43.71 60.91 30.12",
    "Qwen1.5-MoE-A2.7B · RW · none": "27.96 18.89 13.88 17.11 36.29 25.40 29.42 "
    "22.80 42.80 20.63 53.53 48.78 35.74 9.71 11.38 41.00 36.85 22.75",
    "Qwen1.5-MoE-A2.7B · MoEE (concat) · none": "33.36 36.30 24.68 25.86 47.16 39.06 53.92 "
    "43.09 49.60 30.93 53.90 53.74 45.83 28.99 24.51 44.95 68.42 34.31",
    "Qwen1.5-MoE-A2.7B · MoEE (sum) · none": "35.72 47.29 31.51 31.00 50.61 53.40 62.35 "
    "54.11 48.84 32.76 70.50 57.78 45.95 32.07 30.62 44.30 70.85 34.31",
    "Qwen1.5-MoE-A2.7B · HS · PromptEOL": "55.05 77.48 63.63 73.60 73.49 61.42 67.01 "
    "67.42 61.14 48.09 68.80 82.50 66.07 34.04 24.95 54.69 75.06 39.79",
    "Qwen1.5-MoE-A2.7B · RW · PromptEOL": "54.39 59.05 45.49 48.11 56.96 43.65 55.46 "
    "50.54 55.33 33.82 54.37 73.72 55.98 16.94 16.54 44.65 55.03 30.96",
    "Qwen1.5-MoE-A2.7B · MoEE (concat) · PromptEOL": "64.44 77.38 64.05 67.18 71.48 64.87 69.01 "
    "69.71 60.78 46.10 55.82 82.34 65.51 30.45 23.91 52.15 75.69 40.51",
    "Qwen1.5-MoE-A2.7B · MoEE (sum) · PromptEOL": "65.54 82.44 71.39 72.88 75.43 67.84 71.15 "
    "75.57 60.72 47.97 70.03 80.21 64.20 42.05 34.60 51.30 74.53 42.91",
    "OLMoE-1B-7B · HS · none": "21.53 41.47 22.71 39.88 51.49 44.11 39.98 "
    "22.36 50.29 30.29 52.10 55.07 40.04 21.05 26.52 43.67 69.08 24.05",
    "OLMoE-1B-7B · RW · none": "47.16 43.92 32.62 43.87 51.91 44.30 52.89 "
    "40.77 50.15 25.53 54.93 54.25 51.99 17.14 18.17 42.83 54.17 25.72",
    "OLMoE-1B-7B · MoEE (concat) · none": "48.82 52.69 37.48 46.80 56.06 54.58 52.24 "
    "42.02 51.59 28.76 53.51 56.97 46.31 20.72 24.94 43.91 70.33 25.49",
    "OLMoE-1B-7B · MoEE (sum) · none": "49.59 54.19 38.87 47.27 56.11 54.58 52.82 "
    "42.16 51.00 29.75 64.86 57.03 44.82 27.58 33.75 44.57 72.54 26.20",
    "OLMoE-1B-7B · HS · PromptEOL": "65.51 81.86 69.37 77.64 77.19 73.54 66.62 "
    "71.51 59.58 47.50 67.46 82.32 61.87 38.96 26.69 55.32 78.24 41.36",
    "OLMoE-1B-7B · RW · PromptEOL": "55.76 60.01 48.08 49.88 57.88 56.28 56.02 "
    "50.72 52.79 28.51 53.75 70.37 52.79 22.13 17.72 45.11 55.43 31.20",
    "OLMoE-1B-7B · MoEE (concat) · PromptEOL": "67.35 80.13 68.42 68.76 73.35 73.02 67.51 "
    "70.47 59.72 42.78 55.27 82.32 61.38 41.23 26.60 52.81 77.14 40.13",
    "OLMoE-1B-7B · MoEE (sum) · PromptEOL": "68.84 84.34 74.02 73.81 76.88 73.02 70.56 "
    "75.58 59.92 45.63 66.84 80.98 61.53 38.58 34.33 56.68 81.19 43.41",
}
"""Model, vector and prompt -> Tables 8 to 12 of MoEE.

STS (STS12 to STS16, BIOSSES, SICK-R, STSBenchmark), classification (3), pair
classification (2), clustering (2), reranking (3).
"""
