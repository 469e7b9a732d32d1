"""Training on DPUs: the kernels, the binding to hardware or simulator, the backend."""
