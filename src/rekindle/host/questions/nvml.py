# Asked of our own Python, in a process of its own: what does NVIDIA's management library know?
import ctypes
import json
import sys

PLACES = ["libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"]
if sys.platform == "win32":
    PLACES = ["nvml.dll", r"C:\Program Files\NVIDIA Corporation\NVSMI\nvml.dll"]


class _Pci(ctypes.Structure):
    _numbers = [(name, ctypes.c_uint) for name in ("domain", "bus", "device", "pci_device_id", "pci_subsystem_id")]
    _fields_ = [("bus_id_legacy", ctypes.c_char * 16)] + _numbers + [("bus_id", ctypes.c_char * 32)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def _load():
    for place in PLACES:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


def _text(call, *before):
    buffer = ctypes.create_string_buffer(96)
    return buffer.value.decode("utf-8", "replace") if call(*before, buffer, 96) == 0 else None


def _device(nvml, index):
    handle = ctypes.c_void_p()
    code = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    if code:
        return {"index": index, "error": _message(nvml, code), "code": code}
    card = {"index": index, "name": _text(nvml.nvmlDeviceGetName, handle)}
    major, minor = ctypes.c_int(), ctypes.c_int()
    if nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)) == 0:
        card["compute_capability"] = "%d.%d" % (major.value, minor.value)
    memory = _Memory()
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
        card["memory"] = memory.total
    pci = _Pci()
    if nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(pci)) == 0:
        # Low half vendor, high half device, as in configuration space.
        card["pci_id"] = "%04x:%04x" % (pci.pci_device_id & 0xFFFF, pci.pci_device_id >> 16)
        card["pci_slot"] = pci.bus_id.decode("ascii", "replace").lower()
    current, pending = ctypes.c_int(), ctypes.c_int()
    if hasattr(nvml, "nvmlDeviceGetDriverModel"):
        if nvml.nvmlDeviceGetDriverModel(handle, ctypes.byref(current), ctypes.byref(pending)) == 0:
            card["driver_model"] = {0: "WDDM", 1: "TCC", 2: "MCDM"}.get(current.value)
    return card


def _message(nvml, code):
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    return (nvml.nvmlErrorString(code) or b"").decode("utf-8", "replace")


def _main():
    nvml = _load()
    if nvml is None:
        return {"missing": True}
    code = nvml.nvmlInit_v2()
    if code:
        return {"error": _message(nvml, code), "code": code}
    answer = {"driver": _text(nvml.nvmlSystemGetDriverVersion)}
    cuda = ctypes.c_int()
    if nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda)) == 0:
        answer["cuda"] = "%d.%d" % (cuda.value // 1000, cuda.value % 1000 // 10)
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    answer["devices"] = [_device(nvml, index) for index in range(count.value)]
    return answer


print(json.dumps(_main()))
