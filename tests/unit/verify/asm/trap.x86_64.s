.intel_syntax noprefix
start:
 mov r12, rdx
 mov r15d, edi
 mov r13, rsi
 mov edi, [rip+fds]
 mov rsi, r13
 mov edx, 128
 mov eax, 1
 syscall
 mov edi, [rip+fds]
 mov rsi, r12
 mov edx, 256
 mov eax, 1
 syscall
 mov edi, [rip+fds]
 mov rsi, [r12+168]
 mov edx, 16
 mov eax, 1
 syscall
 lea rdi, [rip+path]
 xor esi, esi
 xor edx, edx
 mov eax, 2
 syscall
 mov r14d, eax
 sub rsp, 4096
again:
 mov edi, r14d
 mov rsi, rsp
 mov edx, 4096
 xor eax, eax
 syscall
 test rax, rax
 jle done
 mov rdx, rax
 mov edi, [rip+fds+4]
 mov rsi, rsp
 mov eax, 1
 syscall
 jmp again
done:
 add rsp, 4096
 mov eax, 39
 syscall
 mov edi, eax
 mov esi, r15d
 mov eax, 62
 syscall
 ret
path: .asciz "/proc/self/maps"
fds:
