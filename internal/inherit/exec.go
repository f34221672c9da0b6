package inherit

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec executes a program over this process, with the kept sockets open in it and named in its environment. It returns
// only when the program could not be executed; then everything is as before. The caller has stopped its other threads
// of work: they end wherever they are.
func (s *Sockets) Exec(program string, args, env []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, Variable+"=") })
	env = append(env, Variable+"="+s.encode(os.Getpid()))
	// No child may be forked between the marking and the exec: it would keep our ports open after our end.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	if err := s.closeOnExec(false); err != nil {
		return err
	}
	err := syscall.Exec(program, args, env)
	if undo := s.closeOnExec(true); undo != nil {
		return undo
	}
	return fmt.Errorf("execute %s: %w", program, err)
}

// encode is the value of Variable for the process pid.
func (s *Sockets) encode(pid int) string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(pid) + ":")
	for i, k := range s.kept {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d=%s", k.fd, url.QueryEscape(k.name))
	}
	return b.String()
}

func (s *Sockets) closeOnExec(on bool) error {
	flag := 0
	if on {
		flag = unix.FD_CLOEXEC
	}
	for _, k := range s.kept {
		if _, err := unix.FcntlInt(uintptr(k.fd), unix.F_SETFD, flag); err != nil {
			return fmt.Errorf("hand over socket %s: %w", k.String(), err)
		}
	}
	return nil
}
