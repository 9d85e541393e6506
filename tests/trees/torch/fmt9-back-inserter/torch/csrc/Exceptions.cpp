// A stand-in for torch/csrc/Exceptions.cpp: only the lines the patch looks at.
// …
        fmt::format_to(
            buf,
            FMT_STRING("{} (Triggered internally at {}:{}.)"),
// …
// fmt::memory_buffer buf;
