start:
 mov w24, w0
 mov x19, x1
 mov x20, x2
 adr x21, fds
 ldr w22, [x21, #4]
 ldr w21, [x21]
 mov w0, w21
 mov x1, x19
 mov x2, #128
 mov x8, #64
 svc #0
 mov w0, w21
 mov x1, x20
 mov x2, #464
 svc #0
 mov w0, w21
 ldr x1, [x20, #440]
 mov x2, #16
 svc #0
 mov x0, #-100
 adr x1, path
 mov x2, #0
 mov x3, #0
 mov x8, #56
 svc #0
 mov w23, w0
 sub sp, sp, #4096
again:
 mov w0, w23
 mov x1, sp
 mov x2, #4096
 mov x8, #63
 svc #0
 cmp x0, #0
 b.le done
 mov x2, x0
 mov w0, w22
 mov x1, sp
 mov x8, #64
 svc #0
 b again
done:
 add sp, sp, #4096
 mov x8, #172
 svc #0
 mov w1, w24
 mov x8, #129
 svc #0
 ret
path: .asciz "/proc/self/maps"
fds:
