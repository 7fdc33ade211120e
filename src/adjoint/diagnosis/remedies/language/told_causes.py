"""Remedies for errors whose message tells the cause whole: for each, what to write instead.

They come after all that know the line.
"""

from __future__ import annotations

from adjoint.diagnosis.remedies.requirements.advice import register_advice

ADVICE = {
    # passes backward, hooks and custom functions
    r"`inputs` argument to `\w+\(\)` cannot be empty": "leave inputs= out, or give it the tensors to differentiate by",
    r"allow_unused to be True or not passed": "leave allow_unused=False out: materialize_grads=True gives zeros for it",
    r"trying to differentiate twice a function that was marked": "leave @once_differentiable out, and compute backward "
    "with tensors alone",
    r"leaf variable has been moved into the graph interior": "with torch.no_grad(): around the write into {x}",
    r"hook \w+ has changed the type of value.*(?:became|got) (\S+?)\)?$": "the hook gives {1}: .to(grad.dtype) of what "
    "it returns",
    r"post accumulate grad hooks cannot be registered on non-leaf": "{x} is computed: {x}.register_hook(…) sees its "
    "gradient",
    r"[Tt]ensor post accumulate grad hooks should return None": "leave the return of the hook out: it changes "
    "param.grad itself",
    r"cannot register a hook on a tensor that doesn't require gradient": "{x}.requires_grad_() before it, or "
    "retain_grad()",
    r"Implementing both 'backward' and 'vjp'": "leave one of them out: they are one method with two names",
    r"returned a gradient different than None at position (\d+)": "None in place {1} of what backward returns: that "
    "argument is no tensor",
    r"Cannot use both regular backward hooks and full backward hooks": "register_full_backward_hook(…) for all of them",
    r"module where no input requires gradient|where no input requires gradient": "x.requires_grad_() for the input, or "
    "a hook on a parameter",
    r"functions with out=\.\.\. arguments don't support automatic differentiation": "leave out= out: the result is a "
    "new tensor, or with torch.no_grad(): around it",
    # data
    r"TensorDataset needs at least one tensor": "TensorDataset(x, y), with the inputs and the targets",
    r"datasets should not be an empty iterable|At least one dataset should be passed": "a list of datasets that is "
    "not empty: the files or folders they come from were not found, perhaps",
    r"ConcatDataset does not support IterableDataset": "ChainDataset(…) joins datasets that are only iterated",
    r"DataLoader timed out after (\S+) seconds": "timeout=0 waits, and num_workers=0 shows where a sample takes {1} s",
    r"(\w+) attribute should not be set after (\w+) is initialized": "{1}= in the call of {2}",
    r"Cannot pack empty tensors|received an empty list of sequences": "leave such a batch out, if len(…) > 0 before it",
    # attention and windows
    r"Explicit attn_mask should not be set when is_causal=True": "leave is_causal=True out where a mask is given, or "
    "the mask",
    r"Need attn_mask if specifying the is_causal hint": "attn_mask=nn.Transformer.generate_square_subsequent_mask(T) "
    "beside is_causal=True",
    r"`key_padding_mask` to be `None` or (\d)-D but found (\d)-D": "a mask of {1} dimensions: (batch, keys), True for "
    "the padding",
    r"`attn_mask` to be `None`, 2-D or 3-D but found (\d)-D": "(queries, keys), or (batch * heads, queries, keys)",
    r"(\d+) (in|out)put channels cannot be divided into (\d+) groups": "groups= that divides {1}, such as groups=1",
    r"Padding value causes wrapping around more than once": "a padding smaller than the size of {x}, or mode='reflect'",
    r'Padding mode "(\w+)" doesn\'t take in value': "leave value= out of mode={1!r}",
    r"pool \w+ (\d+) too large relative to input \w+ (\d+)": "a window of {2} or less",
    # modules
    r"add operator supports only objects of Sequential class": "nn.Sequential(*first, second) joins a Sequential and a "
    "module",
    r"Expected state_dict to be dict-like, got (.*)\.": "{call}(model.state_dict()) takes a dict of tensors, such as "
    "torch.load gives",
    r"""name can't contain "\.\"""": "a name without a dot: name.replace('.', '_')",
    r"name can't be empty string": "a name of one letter or more",
    r"Cannot copy out of meta tensor": "model.to_empty(device='cpu') makes memory for it, and load_state_dict fills it",
    r"Only \"zeros\" padding mode is supported": "leave padding_mode= out",
    r"Fusion only for eval": "model.eval() before it",
    r"ParameterList should not be called|ParameterDict should not be called": "it only holds parameters: use them by "
    "their place or name",
    r"Shape of weight does not match num_embeddings and embedding_dim": "nn.Embedding.from_pretrained(weight) takes "
    "both sizes from it",
    r"The total norm of order .* is non-finite": "a gradient is NaN or infinite: "
    "torch.autograd.set_detect_anomaly(True) tells the line that made it",
    # optimizers and schedules
    r"Factor should be < 1\.0": "factor=0.1: the rate is multiplied by it",
    r"mode (\w+) is unknown": "mode='min' for a loss, mode='max' for an accuracy",
    r"You must define either total_steps OR": "total_steps=epochs * len(loader), or epochs= and steps_per_epoch=",
    r"expects at least one scheduler": "a list of schedulers that is not empty",
    r"only 'strong_wolfe' is supported": "line_search_fn='strong_wolfe', or None",
    r"optimizer must support momentum": "cycle_momentum=False, or an optimizer with momentum=",
    r"(\w+) does not support dense gradients": "torch.optim.Adam(…), or sparse=True in the embeddings",
    r"weight_decay (?:option )?is not compatible with sparse gradients": "leave weight_decay= out, or sparse=True",
    r"has neither a step\(\) nor an update\(\)|has no get_lr\(\)": "a method of that name in the class",
    # precision
    r"Attempting to unscale FP16 gradients": "parameters stay float32 under autocast: leave .half() of the model out",
    r"step\(\) has already been called since the last update": "scaler.update() after each scaler.step(optimizer)",
    r"Closure use is not currently supported if GradScaler": "scaler.step(optimizer) without a closure",
    # functions
    r"operands were provided than specified in the equation": "as many groups of letters as there are tensors",
    r"output subscript (\w) appears more than once": "{1} once after ->: 'ii->i' takes a diagonal",
    r"value cannot be converted to type (\S+) without overflow": "a number within the range of {1}",
    r"upper bound and lower bound inconsistent with step sign": "a negative step where the end lies before the begin",
    r"unsupported range": "an end that is finite",
    r"At least one of 'min' or 'max' must not be None": "{call}(min=…), or max=…",
    r"start_dim cannot come after end_dim": "start_dim first, and end_dim=-1",
    r"duplicate dims are not allowed|appears multiple times in the list of dims|repeated dim in": "each dimension once",
    r"should contain the same number of dims as destination": "as many dimensions in both",
    r"cannot sample n_sample <= 0 samples": "a number of samples of 1 or more",
    r"Specify the reduction dim with the 'dim' argument": "what it goes over is empty, "
    "as after a filter that keeps nothing: test .numel() before it",
    r"'?input'? tensor cannot be empty|cannot be empty$": "{x} is empty: a batch with samples",
    r"ZeroDivisionError: (\w+) of integers by zero": "where the divisor is 0 another value: torch.where(b == 0, 1, b)",
    r"Tensor does not support deleting items": "x[torch.arange(len(x)) != i] leaves the i-th out",
    r"Exactly one of covariance_matrix or precision_matrix or scale_tril": "one of the three alone",
    r"custom __init__ method must also def": "expand(self, batch_shape, _instance=None) in the class",
    r"needs to be an\s+instance of torch\.distributions\.(\w+)": "torch.distributions.{1}(logits=…) there",
}


register_advice(__name__, ADVICE, is_last=True)
