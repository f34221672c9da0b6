package edge

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// boundSocket binds a port of 127.0.0.1 without listening on it.
func boundSocket() (fd int, addr string, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, "", err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, "", err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, "", err
	}
	in4, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return 0, "", fmt.Errorf("bound to %T", name)
	}
	return fd, fmt.Sprintf("127.0.0.1:%d", in4.Port), nil
}

func closeSocket(fd int) { _ = unix.Close(fd) }
