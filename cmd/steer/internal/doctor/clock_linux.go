package doctor

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// Clock asks the kernel whether something keeps the clock right. Decisions run on the monotonic clock, but logs,
// schedules and overrides that end at a time do not.
func Clock(context.Context) []Result {
	var t unix.Timex // modes 0: only read
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return one("clock", Unknown, "the kernel does not say whether the clock is kept right: "+err.Error(), "")
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return one("clock", Warn, "nothing keeps the clock right, as far as the kernel knows", "run an NTP client (in a container: on the host)")
	}
	return one("clock", OK, "kept right; estimated error "+(time.Duration(t.Esterror)*time.Microsecond).String(), "")
}
