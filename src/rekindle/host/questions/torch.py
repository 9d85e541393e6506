# Asked of a Python that has torch, so old syntax: does it import, and what can it use here?
import json
import time

begin = time.time()
answer = {}
try:
    import torch

    answer["version"] = str(torch.__version__)
    answer["path"] = torch.__file__
    answer["cuda"] = getattr(torch.version, "cuda", None)
    answer["hip"] = getattr(torch.version, "hip", None)
    answer["git"] = getattr(torch.version, "git_version", None)
    try:
        answer["cudnn"] = torch.backends.cudnn.version()
    except Exception as error:
        answer["cudnn_error"] = str(error)[:300]
    try:
        answer["available"] = bool(torch.cuda.is_available())
        answer["arch_list"] = list(torch.cuda.get_arch_list())
        if answer["cuda"] or answer["hip"]:
            try:
                torch.cuda.init()
                answer["devices"] = [
                    {
                        "name": torch.cuda.get_device_name(i),
                        "capability": list(torch.cuda.get_device_capability(i)),
                    }
                    for i in range(torch.cuda.device_count())
                ]
                torch.ones(2, device="cuda").add_(1).cpu()
                answer["gpu_works"] = True
            except Exception as error:
                answer["gpu_works"] = False
                answer["gpu_error"] = str(error)[:400]
    except Exception as error:
        answer["cuda_error"] = str(error)[:400]
    try:
        answer["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    except Exception:
        pass
    answer["works"] = bool((torch.ones(2) + 1).sum().item() == 4.0)
except Exception as error:
    answer["works"] = False
    answer["error"] = ("%s: %s" % (type(error).__name__, error))[:600]
answer["seconds"] = round(time.time() - begin, 2)
print(json.dumps(answer))
