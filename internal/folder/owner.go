package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Owner gives the number of the process that has the folder at path locked now; ok is false if none has. pid is 0 if that
// one could not write its number. Files that a process leaves behind say nothing of that: the kernel ends a lock.
func Owner(path string) (pid int, ok bool, err error) {
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // not to wait for a pipe in its place
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("lock of data folder: %w", err)
	}
	defer f.Close()
	// A shared lock is given when nobody has the exclusive one. It ends with the file, and who starts meanwhile waits for it.
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return 0, false, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		return 0, false, fmt.Errorf("lock of data folder %s: %w", path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0, false, fmt.Errorf("lock of data folder %s: %w", path, err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
		pid = 0 // it is just being written, or the disk was full
	}
	return pid, true, nil
}
