package moment

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine reads the machine's clocks. CLOCK_BOOTTIME tells what passes: it counts suspended time, in which nobody
// listened, and Go's own monotonic clock does not.
func Machine() Moment {
	var ts unix.Timespec
	m := Moment{Wall: time.Now().Round(0)}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err == nil {
		m.BootTime = time.Duration(ts.Nano())
	}
	return m
}

// BootID identifies the present boot of the machine; "" when the system does not say.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
