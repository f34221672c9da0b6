//go:build !(linux && amd64)

package wallclock

import "errors"

// Supported says why programs cannot be run here with another clock.
func Supported() error {
	return errors.New("a program can be given a wall clock of its own on Linux and amd64 only")
}

// Run fails.
func Run(_, _ []string, _ string) (code int, err error) { return 0, Supported() }
