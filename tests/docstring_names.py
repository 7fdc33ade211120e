"""The most used public names below `adjoint`: their docstrings must be complete (tests/test_docstring_examples.py)."""

FUNCTIONS = [
    # made
    "tensor", "zeros", "ones", "full", "arange", "linspace", "eye", "zeros_like", "ones_like", "from_numpy",
    "as_tensor", "rand", "randn", "randint", "randperm", "manual_seed",
    # element by element
    "add", "sub", "mul", "div", "pow", "exp", "log", "sqrt", "abs", "sin", "tanh", "sigmoid", "relu", "softmax",
    "clamp", "where", "maximum",
    # reduced and sorted
    "sum", "mean", "max", "min", "argmax", "any", "all", "std", "var", "norm", "logsumexp", "cumsum", "sort", "topk",
    "unique",
    # shapes
    "reshape", "Tensor.view", "transpose", "permute", "squeeze", "unsqueeze", "flatten", "cat", "stack", "split",
    "chunk", "Tensor.expand", "Tensor.repeat", "flip", "meshgrid",
    # elements
    "gather", "scatter", "index_select", "masked_fill", "nonzero", "tril",
    # matrices
    "matmul", "bmm", "einsum", "linalg.norm", "linalg.solve", "linalg.inv", "linalg.det", "linalg.svd", "linalg.eigh",
    "linalg.qr", "linalg.cholesky",
    # a tensor's own
    "Tensor.backward", "Tensor.detach", "Tensor.item", "Tensor.numpy", "Tensor.to", "Tensor.requires_grad_",
    "Tensor.size", "Tensor.register_hook", "Tensor.contiguous", "clone",
    # gradients
    "autograd.grad", "autograd.backward", "autograd.Function", "autograd.gradcheck", "no_grad", "inference_mode",
    "func.grad", "func.vmap", "func.jacrev", "func.jacfwd", "func.hessian", "func.vjp", "func.jvp",
    "func.functional_call",
    # and others
    "fft.fft", "fft.rfft", "save", "load", "compile", "testing.assert_close",
]  # fmt: skip
MODULES: list[str] = [
    # layers, losses and containers
    "nn.Linear", "nn.Identity", "nn.Bilinear", "nn.Conv1d", "nn.Conv2d", "nn.Conv3d", "nn.ConvTranspose1d",
    "nn.ConvTranspose2d", "nn.MaxPool1d", "nn.MaxPool2d", "nn.MaxPool3d", "nn.AvgPool1d", "nn.AvgPool2d",
    "nn.AvgPool3d", "nn.AdaptiveMaxPool2d", "nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d", "nn.InstanceNorm2d",
    "nn.LayerNorm", "nn.GroupNorm", "nn.RMSNorm", "nn.Dropout", "nn.Dropout2d", "nn.Embedding",
    "nn.Embedding.from_pretrained", "nn.EmbeddingBag", "nn.Flatten", "nn.Unflatten", "nn.Upsample", "nn.PReLU",
    "nn.ZeroPad2d", "nn.ConstantPad2d", "nn.ReflectionPad2d", "nn.LazyLinear", "nn.RNN", "nn.LSTM", "nn.GRU",
    "nn.LSTMCell", "nn.GRUCell", "nn.MultiheadAttention", "nn.MultiheadAttention.forward", "nn.TransformerEncoderLayer",
    "nn.TransformerDecoderLayer", "nn.TransformerEncoder", "nn.Transformer", "nn.Sequential", "nn.ParameterList",
    "nn.ParameterDict", "nn.HuberLoss", "nn.GaussianNLLLoss", "nn.MultiMarginLoss", "nn.Softmax", "nn.ReLU", "nn.Tanh",
    "nn.Sigmoid", "nn.functional.relu",
    # losses and layers made from functions
    "nn.AdaptiveAvgPool1d", "nn.AdaptiveAvgPool2d", "nn.AdaptiveAvgPool3d", "nn.BCELoss", "nn.BCEWithLogitsLoss",
    "nn.CTCLoss", "nn.ChannelShuffle", "nn.CosineEmbeddingLoss", "nn.CosineSimilarity", "nn.CrossEntropyLoss",
    "nn.Fold", "nn.HingeEmbeddingLoss", "nn.KLDivLoss", "nn.L1Loss", "nn.MSELoss", "nn.MarginRankingLoss",
    "nn.MultiLabelMarginLoss", "nn.MultiLabelSoftMarginLoss", "nn.NLLLoss", "nn.PairwiseDistance", "nn.PixelShuffle",
    "nn.PixelUnshuffle", "nn.PoissonNLLLoss", "nn.SmoothL1Loss", "nn.SoftMarginLoss", "nn.TripletMarginLoss",
    "nn.Unfold",
    # activations made from functions
    "nn.CELU", "nn.ELU", "nn.GELU", "nn.GLU", "nn.Hardshrink", "nn.Hardsigmoid", "nn.Hardswish", "nn.Hardtanh",
    "nn.LeakyReLU", "nn.LogSigmoid", "nn.LogSoftmax", "nn.Mish", "nn.ReLU6", "nn.SELU", "nn.SiLU", "nn.Softmin",
    "nn.Softplus", "nn.Softshrink", "nn.Softsign", "nn.Tanhshrink", "nn.Threshold",
    # modules and their parts
    "nn.ModuleList", "nn.ModuleDict", "nn.Module", "nn.Module.forward", "nn.Module.compile", "nn.Module.train",
    "nn.Module.eval", "nn.Module.requires_grad_", "nn.Module.zero_grad", "nn.Module.apply", "nn.Module.children",
    "nn.Module.modules", "nn.Module.parameters", "nn.Module.buffers", "nn.Module.named_parameters",
    "nn.Module.named_modules", "nn.Module.get_submodule", "nn.Module.register_parameter", "nn.Module.register_buffer",
    "nn.Module.state_dict", "nn.Module.load_state_dict", "nn.Module.to", "nn.Module.register_forward_hook",
    "nn.Module.register_forward_pre_hook", "nn.Module.register_full_backward_hook", "nn.Parameter", "nn.Buffer",
    # utilities of nn
    "nn.utils.clip_grad_norm_", "nn.utils.clip_grad_value_", "nn.utils.parameters_to_vector",
    "nn.utils.vector_to_parameters", "nn.utils.rnn.pad_sequence", "nn.utils.rnn.pack_padded_sequence",
    "nn.utils.rnn.pad_packed_sequence",
    # optimizers and averages
    "optim.SGD", "optim.Adam", "optim.AdamW", "optim.RMSprop", "optim.Adagrad", "optim.NAdam", "optim.LBFGS",
    "optim.Optimizer", "optim.Optimizer.step", "optim.Optimizer.zero_grad", "optim.Optimizer.add_param_group",
    "optim.Optimizer.state_dict", "optim.Optimizer.load_state_dict", "optim.swa_utils.AveragedModel",
    "optim.swa_utils.AveragedModel.update_parameters", "optim.swa_utils.get_ema_multi_avg_fn",
    "optim.swa_utils.update_bn", "optim.swa_utils.SWALR",
    # schedules
    "optim.lr_scheduler.StepLR", "optim.lr_scheduler.MultiStepLR", "optim.lr_scheduler.ExponentialLR",
    "optim.lr_scheduler.CosineAnnealingLR", "optim.lr_scheduler.LambdaLR", "optim.lr_scheduler.LinearLR",
    "optim.lr_scheduler.CosineAnnealingWarmRestarts", "optim.lr_scheduler.OneCycleLR",
    "optim.lr_scheduler.ReduceLROnPlateau", "optim.lr_scheduler.SequentialLR", "optim.lr_scheduler.LRScheduler",
    "optim.lr_scheduler.LRScheduler.step", "optim.lr_scheduler.LRScheduler.get_last_lr",
    # initial values
    "nn.init.uniform_", "nn.init.normal_", "nn.init.constant_", "nn.init.xavier_uniform_", "nn.init.xavier_normal_",
    "nn.init.kaiming_uniform_", "nn.init.kaiming_normal_", "nn.init.orthogonal_", "nn.init.trunc_normal_",
    # data
    "data.DataLoader", "data.Dataset", "data.IterableDataset", "data.TensorDataset", "data.Subset",
    "data.ConcatDataset", "data.random_split", "data.default_collate", "data.Sampler", "data.RandomSampler",
    "data.WeightedRandomSampler", "data.BatchSampler", "data.get_worker_info",
    # distributions
    "distributions.Distribution", "distributions.Distribution.sample", "distributions.Distribution.rsample",
    "distributions.Distribution.log_prob", "distributions.Distribution.cdf", "distributions.Distribution.entropy",
    "distributions.Distribution.expand", "distributions.Normal", "distributions.LogNormal", "distributions.Uniform",
    "distributions.Exponential", "distributions.Laplace", "distributions.Gamma", "distributions.Beta",
    "distributions.Dirichlet", "distributions.StudentT", "distributions.Bernoulli", "distributions.Binomial",
    "distributions.Poisson", "distributions.Categorical", "distributions.OneHotCategorical",
    "distributions.MultivariateNormal", "distributions.Independent", "distributions.TransformedDistribution",
    "distributions.MixtureSameFamily", "distributions.kl_divergence",
]  # fmt: skip
