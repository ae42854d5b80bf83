"""The faults of the fault suite: which call goes wrong, how, when, and what has to come of it."""

from dataclasses import dataclass

from .fault_faces import FACES
from .faults import functions_in_use


@dataclass(frozen=True)
class Case:
    """One fault. `LAST` in its lines stands for the number of the function's last call."""

    face: str
    moment: str
    fault: tuple
    outcome: str
    needle: str = ""

    @property
    def id(self):
        words = " ".join(self.fault).replace("PJRT_", "").replace(" ", "-")
        return f"{self.face}-{self.moment}-{words}"


REFUSED = "pjrt-fault: refused"
FAILED = "pjrt-fault: execution failed"
NOTHING = "the plugin returned neither a result nor an error"
CONTRADICTION = "the plugin contradicts itself about the outputs"

SEQUENCES, TENSORS = ["sequence", "copying_sequence"], ["tensor", "copying_tensor"]
VIEWING = ["sequence", "tensor"]
ALL = list(FACES)
# Those whose programs compile in no time.
QUICK = [*TENSORS, "bounded"]

CREATE = "PJRT_Client_Create"
PLATFORM = "PJRT_Client_PlatformName"
DEVICES = "PJRT_Client_AddressableDevices"
UPLOAD = "PJRT_Client_BufferFromHostBuffer"
VIEW = "PJRT_Client_CreateViewOfDeviceBuffer"
DESCRIBE = "PJRT_LoadedExecutable_GetExecutable"
COUNT, TYPES = "PJRT_Executable_NumOutputs", "PJRT_Executable_OutputElementTypes"
DIMS, STATS = "PJRT_Executable_OutputDimensions", "PJRT_Executable_GetCompiledMemoryStats"
COMPILE, CACHED = "PJRT_Client_Compile", "PJRT_Executable_DeserializeAndLoad"
WRITE_DOWN = "PJRT_Executable_Serialize"
EXECUTE, AWAIT = "PJRT_LoadedExecutable_Execute", "PJRT_Event_Await"
READY, SIZE = "PJRT_Buffer_ReadyEvent", "PJRT_Buffer_OnDeviceSizeInBytes"
POINTER = "PJRT_Buffer_OpaqueDeviceMemoryDataPointer"
HOLD = "PJRT_Buffer_IncreaseExternalReferenceCount"
LET_GO = "PJRT_Buffer_DecreaseExternalReferenceCount"
READ = "PJRT_Buffer_ToHostBuffer"
DELETED = "PJRT_Buffer_IsDeleted"
KIND, DESCRIPTION = "PJRT_DeviceDescription_Kind", "PJRT_Device_GetDescription"
ATTRIBUTES = "PJRT_Plugin_Attributes"
END_BUFFER, END_EVENT = "PJRT_Buffer_Destroy", "PJRT_Event_Destroy"
END_EXECUTABLE, END_LOADED = "PJRT_Executable_Destroy", "PJRT_LoadedExecutable_Destroy"
END_CLIENT = "PJRT_Client_Destroy"
ENDS = [END_BUFFER, END_EVENT, END_EXECUTABLE, END_LOADED, END_CLIENT]


def cases(faces, moment, outcome, needle, *faults):
    """The faults, each a line or several, for each face."""
    for face in faces:
        for fault in faults:
            lines = (fault,) if isinstance(fault, str) else fault
            yield Case(face, moment, lines, outcome, needle)


def loads():
    """Loading with programs that are in the compile cache."""
    for function in (CREATE, PLATFORM, DEVICES):
        needle = f"{function} failed: {REFUSED}"
        yield from cases(ALL, "load", "refused", needle, f"{function} refuse")
    for function in (CREATE, PLATFORM):
        needle = f"{function} failed: {NOTHING}"
        yield from cases(ALL, "load", "refused", needle, f"{function} null")
    yield from cases(ALL, "load", "refused", "it has no devices", f"{DEVICES} null")
    # They fail for the program in the cache first, and again when it is compiled.
    for function in (DESCRIBE, COUNT, TYPES, DIMS):
        needle = f"{function} failed: {REFUSED}"
        yield from cases(QUICK, "load", "refused", needle, f"{function} refuse")
    yield from cases(QUICK, "load", "refused", f"{DESCRIBE} failed: {NOTHING}", f"{DESCRIBE} null")
    for function in (TYPES, DIMS):
        yield from cases(QUICK, "load", "refused", CONTRADICTION, f"{function} null")
    yield from cases(SEQUENCES, "load", "refused", "compiled to 0 results", f"{COUNT} null")
    yield from cases(QUICK, "load", "refused", "compiled to 0 out", f"{COUNT} null")
    yield from cases(ALL, "load", "refused", REFUSED, f"{CREATE} refuse RESOURCE_EXHAUSTED")

    # Weights come first, pools and states last.
    for faces, last in ((SEQUENCES, "the KV pools"), (TENSORS, "the states")):
        for code in ("", " RESOURCE_EXHAUSTED"):
            for place, what in (("1", "weight '"), ("LAST", last)):
                fault = f"{UPLOAD} refuse{code} at {place}"
                yield from cases(faces, "load", "refused", what, fault)
        yield from cases(faces, "load", "refused", NOTHING, f"{UPLOAD} null at 1")
        yield from cases(
            faces, "load", "refused", f"{last}: {UPLOAD} failed: {FAILED}", f"{UPLOAD} fail at LAST"
        )
        yield from cases(
            faces,
            "load",
            "refused",
            f"{last}: {UPLOAD} failed: {REFUSED}",
            f"{AWAIT} refuse at LAST",
        )
    for place in ("1", "LAST"):
        fault = f"{VIEW} refuse at {place}"
        yield from cases(["sequence"], "load", "refused", f"{VIEW} failed: {REFUSED}", fault)
    yield from cases(["sequence"], "load", "refused", f"{VIEW} failed: {NOTHING}", f"{VIEW} null")

    # What is asked out of interest, and what only gives back.
    harmless = [f"{function} refuse" for function in (LET_GO, HOLD, POINTER, END_EVENT)]
    faces = [*SEQUENCES, *TENSORS]
    yield from cases(faces, "load", "served", "", *harmless, f"{POINTER} null", f"{HOLD} null")
    harmless = [f"{STATS} refuse", f"{STATS} null", f"{END_EXECUTABLE} refuse"]
    yield from cases(ALL, "load", "served", "", *harmless)
    # The cache does without them, or the program is compiled again.
    again = [f"{function} refuse" for function in (KIND, DESCRIPTION, ATTRIBUTES, CACHED)]
    again += [f"{function} null" for function in (KIND, DESCRIPTION, ATTRIBUTES, CACHED)]
    again += [f"{function} refuse at 1" for function in (DESCRIBE, COUNT, TYPES, DIMS)]
    yield from cases(["tensor", "bounded"], "load", "served", "", *again)


def cold_loads():
    """Loading with an empty compile cache."""
    for fault, needle in (
        (f"{COMPILE} refuse", f"{COMPILE} failed: {REFUSED}"),
        (f"{COMPILE} refuse RESOURCE_EXHAUSTED", f"{COMPILE} failed: {REFUSED}"),
        (f"{COMPILE} null", f"{COMPILE} failed: {NOTHING}"),
    ):
        yield from cases(["sequence", "tensor", "bounded"], "cold", "refused", needle, fault)
    trial = "compiles, but its trial run failed: "
    yield from cases(["sequence"], "cold", "refused", trial, f"{EXECUTE} refuse")
    kept = [f"{WRITE_DOWN} refuse", f"{WRITE_DOWN} null", f"{END_EXECUTABLE} refuse"]
    yield from cases(["tensor", "bounded"], "cold", "served", "", *kept)


def unloads():
    """Unloading, which cannot fail: what is not given back is lost, and nothing else."""
    for function in (END_BUFFER, END_EVENT, END_LOADED, END_CLIENT, AWAIT):
        faces = [*SEQUENCES, "tensor"] if function in (END_BUFFER, END_EVENT, AWAIT) else ALL
        if function in (END_EVENT, AWAIT):
            # Of weights that the device reads where they are mapped.
            faces = VIEWING
        yield from cases(faces, "unload", "served", "", f"{function} refuse")


def sequence_requests():
    """Steps and prompts of a language model."""
    appended = "the request ran and its tokens are appended, but its outputs cannot be delivered"
    for moment in ("decode", "prompt"):
        nothing = "failed and appended nothing: "
        launches = [f"{EXECUTE} refuse at 1", f"{EXECUTE} refuse RESOURCE_EXHAUSTED at 1"]
        launches += [f"{EXECUTE} null at 1"]
        yield from cases(SEQUENCES, moment, "kept", nothing, *launches)
        took = "took the KV pools with it, so every sequence of instance"
        lost = [f"{EXECUTE} lose at 1", f"{EXECUTE} fail at 1", f"{EXECUTE} fail DATA_LOSS at 1"]
        lost += [(f"{EXECUTE} refuse at 1", f"{DELETED} refuse")]
        yield from cases(SEQUENCES, moment, "lost", took, *lost)
        yield from cases(["sequence"], moment, "lost", took, f"{AWAIT} refuse at 1")
        served = [f"{EXECUTE} delay 20", f"{END_EVENT} refuse", f"{END_BUFFER} refuse"]
        yield from cases(SEQUENCES, moment, "served", "", *served)
        # The logits are read where they are, or copied.
        reads = [f"{function} refuse" for function in (READY, SIZE, POINTER, HOLD)]
        reads += [f"{READY} fail", f"{POINTER} null", f"{SIZE} null", f"{AWAIT} refuse at LAST"]
        yield from cases(["sequence"], moment, "advanced", appended, *reads)
        yield from cases(["sequence"], moment, "served", "", f"{READY} null", f"{LET_GO} refuse")
        copies = [
            f"{READ} refuse at 1",
            f"{READ} refuse at LAST",
            f"{READ} fail",
            f"{READ} null at 1",
        ]
        outcome = "kept" if moment == "decode" else "freed"
        text = "ran, but its results could not be copied to the host"
        yield from cases(["copying_sequence"], moment, outcome, text, *copies)
        uploads = [f"{UPLOAD} {how} at 1" for how in ("refuse", "null", "fail")]
        yield from cases(["copying_sequence"], moment, "kept", nothing, *uploads)
    freed = "an earlier call of the same request had run, so the sequence is freed"
    later = [f"{EXECUTE} {how} at {at}" for how in ("refuse", "null") for at in (2, "LAST")]
    yield from cases(SEQUENCES, "prompt", "freed", freed, *later)
    later = [f"{EXECUTE} {how} at {at}" for how in ("lose", "fail") for at in (2, "LAST")]
    yield from cases(SEQUENCES, "prompt", "lost", freed, *later)
    yield from cases(["copying_sequence"], "prompt", "freed", freed, f"{UPLOAD} refuse at LAST")


def tensor_requests():
    """Requests of tensor mode, with a state."""
    launches = [f"{EXECUTE} refuse", f"{EXECUTE} refuse RESOURCE_EXHAUSTED", f"{EXECUTE} null"]
    yield from cases(TENSORS, "request", "kept", f"{EXECUTE} failed: ", *launches)
    lost = [f"{EXECUTE} lose at 1", f"{EXECUTE} fail at 1"]
    lost += [(f"{EXECUTE} refuse at 1", f"{DELETED} refuse at 1")]
    yield from cases(
        TENSORS, "request", "lost", "took the instance's states, which are zero", *lost
    )
    reads = [f"{function} refuse at LAST" for function in (READY, SIZE, POINTER, HOLD)]
    reads += [f"{READY} fail at LAST"]
    yield from cases(["tensor"], "request", "advanced", "cannot be read: ", *reads)
    copies = [f"{READ} refuse at 1", f"{READ} fail at LAST", f"{READ} null at 1"]
    yield from cases(["copying_tensor"], "request", "advanced", "output 'SCALED' ", copies[0])
    yield from cases(["copying_tensor"], "request", "advanced", "output 'TOTAL' ", copies[1])
    yield from cases(["copying_tensor"], "request", "advanced", "cannot be read: ", copies[2])
    uploads = [f"{UPLOAD} {how} at 1" for how in ("refuse", "null", "fail")]
    yield from cases(["copying_tensor"], "request", "kept", f"{UPLOAD} failed", *uploads)
    served = [f"{END_EVENT} refuse", f"{END_BUFFER} refuse", f"{EXECUTE} delay 20"]
    yield from cases(TENSORS, "request", "served", "", *served)
    yield from cases(["tensor"], "request", "served", "", f"{LET_GO} refuse", f"{READY} null")


def bounded_requests():
    """Requests of bounded mode."""
    faults = [f"{EXECUTE} {how}" for how in ("refuse", "null", "fail", "lose")]
    faults += [f"{UPLOAD} {how} at 1" for how in ("refuse", "null", "fail")]
    faults += [f"{UPLOAD} refuse RESOURCE_EXHAUSTED at LAST", f"{AWAIT} refuse at 1"]
    faults += [f"{function} refuse" for function in (READY, SIZE, POINTER, HOLD)]
    faults += [f"{READY} fail", f"{POINTER} null"]
    yield from cases(["bounded"], "request", "kept", "model 'bounded': bounded entry ", *faults)
    served = [f"{LET_GO} refuse", f"{END_EVENT} refuse", f"{END_BUFFER} refuse", f"{SIZE} null"]
    yield from cases(["bounded"], "request", "served", "", *served, f"{EXECUTE} delay 20")


# Without them nothing can be served. The rest is done without.
NEEDED = {
    CREATE: "does not offer PJRT_Client_Create",
    PLATFORM: "does not offer PJRT_Client_PlatformName",
    DEVICES: "does not offer PJRT_Client_AddressableDevices",
    UPLOAD: "does not offer PJRT_Client_BufferFromHostBuffer",
    DESCRIBE: "does not offer PJRT_LoadedExecutable_GetExecutable",
    COUNT: "does not offer PJRT_Executable_NumOutputs",
    TYPES: "does not offer PJRT_Executable_OutputElementTypes",
    DIMS: "does not offer PJRT_Executable_OutputDimensions",
    AWAIT: "does not offer PJRT_Event_Await",
    READ: "without PJRT_Buffer_ToHostBuffer",
}
# The compile cache makes up for these.
NEEDED_COLD = {
    COMPILE: "does not offer PJRT_Client_Compile",
    EXECUTE: "trial run failed: the PJRT plugin does not offer PJRT_LoadedExecutable_Execute",
}

# The cache is of no use without them.
COMPILING = {DESCRIBE, COUNT, TYPES, DIMS, CACHED, KIND, DESCRIPTION, ATTRIBUTES}


def plugins():
    """Plugins that lack a function, are of another version, or do not come up."""
    for face in VIEWING:
        left_out = NEEDED_COLD.keys() | (COMPILING if face == "sequence" else set())
        for function in sorted(functions_in_use() - left_out):
            needle = NEEDED.get(function, "")
            outcome = "refused" if needle else "served"
            yield Case(face, "plugin", (f"hide {function}",), outcome, needle)
    needle = NEEDED_COLD[COMPILE]
    yield Case("tensor", "cold_plugin", (f"hide {COMPILE}",), "refused", needle)
    needle = NEEDED_COLD[EXECUTE]
    yield Case("sequence", "cold_plugin", (f"hide {EXECUTE}",), "refused", needle)
    version = "and this build needs 0.x, such as 0.81; use a plugin of that version"
    told = ["api-version 1.0", "api-version 2.81", "struct-size 16", "struct-size 200"]
    yield from cases(["tensor"], "plugin", "refused", version, *told)
    up = f"PJRT_Plugin_Initialize failed: {REFUSED}"
    yield Case("tensor", "plugin", ("PJRT_Plugin_Initialize refuse",), "refused", up)
    fine = ["api-version 0.9", "api-version 0.4000", "hide extensions"]
    yield from cases(["tensor", "bounded"], "plugin", "served", "", *fine)


CASES = [
    *loads(),
    *cold_loads(),
    *unloads(),
    *sequence_requests(),
    *tensor_requests(),
    *bounded_requests(),
    *plugins(),
]
