"""pplconv: 2-D convolution on CPUs from NumPy.

====================  ============================================================================
``conv2d``            convolve once: weights are packed in the call
``Conv2d``            convolve often: weights are packed once
``conv1d``            the same for signals
``conv3d``            the same for volumes; ``Conv3d``, with the weights packed once
``conv_transpose2d``  convolve transposed, as decoders do to make images larger
``ConvTranspose2d``   the same with the weights packed once
``conv_transpose1d``  the same for signals; ``conv_transpose3d``, for volumes
``matmul``            matrix product, as `numpy.matmul`, with an epilogue
``Linear``            product with a matrix of weights that is packed once
``qconv2d``           convolve quantized images; ``conv2d_integer`` gives the int32 sums
``QConv2d``           the same with the weights packed once
``qmatmul``           product of quantized matrices; ``matmul_integer`` gives the int32 sums
``Chain``             prepared layers one after another, band by band, as one layer
``imaging``           image filters, exact for integers: `imaging.filter2d` and others
``prune``             weights that are mostly zeros, for trials: `prune.magnitude`
``quant``             scales and zero points of arrays: `quant.observe`, `quant.quantize_weights`
``to_blocked``        NCHW to NCHWc, channels in blocks; ``from_blocked`` goes back
``empty_aligned``     an array that kernels store into fastest, for `out=` and for inputs
``InferenceSession``  an ONNX network, ready to run (extra ``onnx``)
``InstancePool``      several instances of a model behind one queue; ``QueueFull``, ``PoolClosed``,
                      ``WorkerDied``
``cache``             compiled networks of earlier processes: `cache.describe`, `cache.clear`
``Plan``              how a problem is computed (`Conv2d.plan_for`)
``sharing``           sends models with their packed weights to other processes:
                      `sharing.prepared`
``show_config``       this machine's CPU, and how pplconv uses it
``runtime``           for a block of code: `runtime.team`, `runtime.tolerance`, `runtime.pin`
``wisdom``            measured plans, remembered: `wisdom.export`, `wisdom.load`, `wisdom.clear`
====================  ============================================================================

These names are public, and ``dir(pplconv)`` lists no others. Everything else in the package is
private and changes without notice; docs/architecture.md describes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from ._kernels import rows as _compiled  # noqa: F401
except ModuleNotFoundError as _error:
    from ._source_tree import not_built

    _explained = not_built(_error)
    raise (_explained or _error) from _error

from . import quant
from ._lazy import on_demand
from ._version import __version__

# OpenMP's library comes with it: it counts the CPUs of the thread that loads it, and binds this
# thread if `OMP_PROC_BIND` says so. That is the thread that imports the package, before any pin.
from .schedules import team as _team  # noqa: F401

if TYPE_CHECKING:
    from . import cache, imaging, prune, runtime, sharing, wisdom
    from .api.conv import Conv2d
    from .api.conv1d import conv1d
    from .api.conv_transpose1d import conv_transpose1d
    from .api.function import conv2d
    from .api.linear import Linear
    from .api.matmul import matmul
    from .api.quantized_function import conv2d_integer, qconv2d
    from .api.quantized_layer import QConv2d
    from .api.quantized_matmul import matmul_integer, qmatmul
    from .api.transposed_function import conv_transpose2d
    from .api.transposed_layer import ConvTranspose2d
    from .api.volume_functions import conv3d, conv_transpose3d
    from .api.volume_layer import Conv3d
    from .commands.info import show_config
    from .instances import InstancePool, PoolClosed, QueueFull, WorkerDied
    from .memory.arrays import empty_aligned
    from .network.chain import Chain
    from .network.session import InferenceSession
    from .ops.blocked import from_blocked, to_blocked
    from .planner.plan import Plan

__all__ = [
    "Chain",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "InferenceSession",
    "InstancePool",
    "Linear",
    "Plan",
    "PoolClosed",
    "QConv2d",
    "QueueFull",
    "WorkerDied",
    "__version__",
    "cache",
    "conv1d",
    "conv2d",
    "conv2d_integer",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "empty_aligned",
    "from_blocked",
    "imaging",
    "matmul",
    "matmul_integer",
    "prune",
    "qconv2d",
    "qmatmul",
    "quant",
    "runtime",
    "sharing",
    "show_config",
    "to_blocked",
    "wisdom",
]

# Imported at first use, so that `import pplconv` costs next to nothing and a program pays for what
# it uses: a network from a file needs neither layers nor a planner, a layer no networks.
_ON_DEMAND = {
    "": "cache imaging prune runtime sharing wisdom",
    "api.conv": "Conv2d",
    "api.conv1d": "conv1d",
    "api.conv_transpose1d": "conv_transpose1d",
    "api.function": "conv2d",
    "api.linear": "Linear",
    "api.matmul": "matmul",
    "api.quantized_function": "conv2d_integer qconv2d",
    "api.quantized_layer": "QConv2d",
    "api.quantized_matmul": "matmul_integer qmatmul",
    "api.transposed_function": "conv_transpose2d",
    "api.transposed_layer": "ConvTranspose2d",
    "api.volume_functions": "conv3d conv_transpose3d",
    "api.volume_layer": "Conv3d",
    "commands.info": "show_config",
    "instances": "InstancePool PoolClosed QueueFull WorkerDied",
    "memory.arrays": "empty_aligned",
    "network.chain": "Chain",
    "network.session": "InferenceSession",
    "ops.blocked": "from_blocked to_blocked",
    "planner.plan": "Plan",
}

if not TYPE_CHECKING:  # with it, checkers would accept any name
    __getattr__ = on_demand(__name__, _ON_DEMAND)

    def _quantize_model() -> object:
        from .network.opening import require_onnx

        require_onnx()
        from .network.calibration import quantize_model

        return quantize_model

    # A function of `quant`, which is below networks and imports none of their modules.
    quant._provide("quantize_model", _quantize_model)


def __dir__() -> list[str]:
    return sorted(__all__)
