// Package wallclock runs a program whose wall clock is wrong, and only that: its monotonic clock and everybody else's
// clocks are the machine's.
//
// The kernel has namespaces for every clock but this one, and a Go program cannot be given another library. So the
// program is traced: what it asks the kernel is let through, and the answer to "what time is it" is changed on its way
// back. A traced program is slower by some microseconds a system call, which a node that probes does not notice.
package wallclock

import (
	"fmt"
	"os"
	"time"
)

// Set says by how much the wall clock of the programs run with this file is ahead, from now on.
func Set(file string, ahead time.Duration) error {
	beside := file + ".new" // a clock is looked at at any moment: never at half a file
	if err := os.WriteFile(beside, []byte(ahead.String()), 0o600); err != nil {
		return fmt.Errorf("wall clock: %w", err)
	}
	if err := os.Rename(beside, file); err != nil {
		return fmt.Errorf("wall clock: %w", err)
	}
	return nil
}

func read(file string) (time.Duration, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("wall clock: %w", err)
	}
	d, err := time.ParseDuration(string(b))
	if err != nil {
		return 0, fmt.Errorf("wall clock in %s: %w", file, err)
	}
	return d, nil
}
