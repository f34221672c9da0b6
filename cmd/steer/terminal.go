package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// readable waits until a file can be read, or has an end to tell. A read of a terminal cannot be called off, so it is
// begun only when there is something.
func readable(f *os.File, wait time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(wait.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}
