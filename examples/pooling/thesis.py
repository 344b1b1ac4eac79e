"""What the thesis compares, and its numbers.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures". Without Keras, so that tables can be shown at once.
"""

# How an LSTM is trained.
METHODS = (
    "lstm",
    "maxpool",
    "teacher_forcing",
    "penalty",
    "dropout",
    "gradient_directed",
)
# IMDb in tables 1.3 and 1.6, in % with 5 seeds: 1K, 2K, 5K, 10K and 20K texts.
POOLING_SIZES = (1000, 2000, 5000, 10000, 20000)
POOLING = {
    "standard": {
        "bilstm": "64.7±2.3 75.0±0.4 83.2±0.4 86.6±0.8 88.7±0.6",
        "meanpool": "73.0±3.0 81.7±0.7 85.4±0.1 87.1±0.6 88.6±0.3",
        "maxpool": "69.0±3.9 80.1±0.5 85.7±0.2 87.8±0.6 89.9±0.3",
        "att": "75.7±2.6 82.8±0.8 86.9±0.7 89.0±0.3 90.3±0.2",
        "maxatt": "75.9±2.2 82.5±0.4 86.1±0.8 88.5±0.5 89.9±0.2",
    },
    "left": {
        "bilstm": "67.6±1.1 74.7±1.2 80.6±0.3 84.5±0.4 87.2±0.4",
        "meanpool": "69.7±3.4 76.6±0.9 81.7±0.7 83.6±1.0 86.5±0.8",
        "maxpool": "68.8±1.2 76.8±1.7 82.2±0.8 86.9±0.9 88.4±0.5",
        "att": "76.5±1.5 79.6±1.1 82.6±0.6 86.9±0.8 88.9±0.5",
        "maxatt": "75.8±1.5 80.6±1.0 84.1±1.5 87.1±0.6 89.1±0.2",
    },
    "mid": {
        "bilstm": "49.6±0.7 49.9±0.5 50.2±0.3 50.3±0.3 50.1±0.3",
        "meanpool": "69.8±2.1 76.2±1.0 82.2±0.7 84.1±0.7 86.5±0.8",
        "maxpool": "64.5±1.8 77.2±2.0 82.9±1.2 86.0±0.8 88.4±0.6",
        "att": "75.0±0.8 79.4±0.8 83.4±1.0 86.7±1.4 88.8±0.2",
        "maxatt": "75.4±2.4 80.9±1.8 84.7±1.3 86.8±0.5 88.7±0.4",
    },
    "right": {
        "bilstm": "53.5±2.5 64.7±2.8 79.7±4.3 85.9±0.5 88.5±0.2",
        "meanpool": "70.0±1.1 76.8±1.0 81.8±0.5 84.8±0.9 87.1±0.3",
        "maxpool": "65.9±4.6 77.8±0.9 84.9±0.8 87.2±0.6 89.3±0.3",
        "att": "74.7±1.4 80.2±1.8 84.7±1.1 87.1±1.0 89.4±0.3",
        "maxatt": "77.9±0.9 81.9±0.5 85.2±0.8 87.2±0.5 89.4±0.3",
    },
}
# Vanishing ratios of table 1.2 by number of texts, in the standard setting.
RATIOS = {
    "bilstm": {1000: 3e-4, 5000: 0.03, 20000: 0.06},
    "meanpool": {1000: 1.09, 5000: 0.84, 20000: 1.02},
    "maxpool": {1000: 0.43, 5000: 0.46, 20000: 0.50},
    "att": {1000: 0.58, 5000: 0.61, 20000: 0.91},
    "maxatt": {1000: 0.68, 5000: 0.56, 20000: 0.72},
}
# Table 2.1: IMDb, 10K training texts, in %.
LEARNABILITY_SIZE = 10000
LEARNABILITY = {
    "standard": dict(zip(METHODS, (86.6, 87.2, 87.3, 86.4, 86.7, 87.4))),
    "mid": dict(zip(METHODS, (50.1, 80.1, 49.8, 70.7, 73.6, 80.3))),
}
# Table 1.9: IMDb, 10 labelled texts a class, in %.
FEW_LABELS = {"maxatt": "75.6"}
