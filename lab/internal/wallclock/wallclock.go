//go:build linux && amd64

package wallclock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported says why programs cannot be run here with another clock; nil: they can.
func Supported() error { return nil }

// Run runs the program argv[0], a path, with this process's streams, until it ends, and gives its exit code. What it takes
// for the wall clock is that of the machine plus what the file says, as Set wrote it, each time it looks. SIGINT and
// SIGTERM go on to the program; it is killed when this process ends. It is for a process that does nothing else.
func Run(argv, env []string, file string) (code int, err error) {
	runtime.LockOSThread() // a traced program answers to the thread that started it
	defer runtime.UnlockOSThread()
	pid, _, err := syscall.StartProcess(argv[0], argv, &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, &os.PathError{Op: "start", Path: argv[0], Err: err}
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return 0, os.NewSyscallError("wait4", err)
	}
	if !status.Stopped() {
		return 0, fmt.Errorf("%s did not start", argv[0])
	}
	t := &tracer{program: pid, file: file, known: map[int]bool{pid: true}}
	options := unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACESYSGOOD |
		unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		return 0, os.NewSyscallError("ptrace options", err)
	}
	if err := t.hideFastClock(); err != nil {
		return 0, fmt.Errorf("the clock without a system call: %w", err)
	}
	defer forward(pid)()
	return t.run()
}

// forward passes on the signals that ask a program to stop. They come to all of a terminal's processes anyway.
func forward(pid int) (stop func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for s := range c {
			_ = syscall.Kill(pid, s.(syscall.Signal)) // it may have ended
		}
	}()
	return func() { signal.Stop(c); close(c) }
}

type tracer struct {
	program int
	file    string
	known   map[int]bool // threads that have been seen
}

// run lets the program go from one system call to the next until it has ended.
func (t *tracer) run() (int, error) {
	for tid, deliver := t.program, 0; ; {
		err := unix.PtraceSyscall(tid, deliver)
		if err != nil && !errors.Is(err, unix.ESRCH) { // killed meanwhile: Wait4 tells
			return 0, os.NewSyscallError("ptrace", err)
		}
		var status unix.WaitStatus
		if tid, err = unix.Wait4(-1, &status, unix.WALL, nil); err != nil {
			return 0, os.NewSyscallError("wait4", err)
		}
		for status.Exited() || status.Signaled() {
			if tid == t.program {
				return exitCode(status), nil
			}
			delete(t.known, tid)
			if tid, err = unix.Wait4(-1, &status, unix.WALL, nil); err != nil {
				return 0, os.NewSyscallError("wait4", err)
			}
		}
		if deliver, err = t.stopped(tid, status); err != nil {
			return 0, err
		}
	}
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// stopped looks at why a thread stopped, and gives the signal it is to go on with.
func (t *tracer) stopped(tid int, status unix.WaitStatus) (deliver int, err error) {
	const syscallStop = unix.SIGTRAP | 0x80 // PTRACE_O_TRACESYSGOOD
	first := !t.known[tid]
	t.known[tid] = true
	switch sig := status.StopSignal(); {
	case sig == syscallStop:
		return 0, t.afterCall(tid)
	case sig == unix.SIGTRAP && status.TrapCause() > 0: // it has made a thread
		return 0, nil
	case sig == unix.SIGSTOP && first: // so begins a thread that is traced
		return 0, nil
	default:
		return int(sig), nil
	}
}

// afterCall changes the answer to clock_gettime(CLOCK_REALTIME), once it is there. The kernel marks a call that is only
// about to be made with -ENOSYS in the place of the result.
func (t *tracer) afterCall(tid int) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return gone(err)
	}
	if r.Orig_rax != unix.SYS_CLOCK_GETTIME || r.Rdi != unix.CLOCK_REALTIME || r.Rax != 0 {
		return nil
	}
	var b [16]byte // struct timespec: seconds and nanoseconds
	if _, err := unix.PtracePeekData(tid, uintptr(r.Rsi), b[:]); err != nil {
		return gone(err)
	}
	skew, err := read(t.file)
	if err != nil {
		return err
	}
	at := time.Unix(int64(binary.LittleEndian.Uint64(b[:8])), int64(binary.LittleEndian.Uint64(b[8:]))).Add(skew)
	binary.LittleEndian.PutUint64(b[:8], uint64(at.Unix()))
	binary.LittleEndian.PutUint64(b[8:], uint64(at.Nanosecond()))
	_, err = unix.PtracePokeData(tid, uintptr(r.Rsi), b[:])
	return gone(err)
}

// gone is nil for a thread that was killed between two looks at it.
func gone(err error) error {
	if err == nil || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return os.NewSyscallError("ptrace", err)
}

// The marks of the auxiliary vector, <linux/auxvec.h>.
const (
	auxEnd    = 0
	auxIgnore = 1
	auxVDSO   = 33
)

// hideFastClock takes the address of the vDSO out of what the kernel tells a program when it starts: with it the
// program would read the clock without asking. The stack then has the number of arguments, the arguments, a zero, the
// environment, a zero, and pairs of a mark and a value.
func (t *tracer) hideFastClock() error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.program, &r); err != nil {
		return os.NewSyscallError("ptrace", err)
	}
	at := uintptr(r.Rsp)
	word := func() (uint64, error) {
		var b [8]byte
		_, err := unix.PtracePeekData(t.program, at, b[:])
		at += 8
		return binary.LittleEndian.Uint64(b[:]), os.NewSyscallError("ptrace", err)
	}
	n, err := word()
	if err != nil {
		return err
	}
	at += uintptr(n+1) * 8 // the arguments and their zero
	for v := uint64(1); v != 0; {
		if v, err = word(); err != nil {
			return err
		}
	}
	for {
		mark, err := word()
		switch {
		case err != nil:
			return err
		case mark == auxEnd:
			return errors.New("the kernel gave the program none")
		case mark == auxVDSO:
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], auxIgnore)
			_, err := unix.PtracePokeData(t.program, at-8, b[:])
			return os.NewSyscallError("ptrace", err)
		}
		at += 8
	}
}
