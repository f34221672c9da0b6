package ruletext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Week is a time of the week that comes again and again.
type Week struct {
	days     [7]bool // on which it begins; Sunday is 0
	from, to int     // minutes of the day; to is not included
	zone     *time.Location
}

// ErrWeek says that a text is no time of the week.
var ErrWeek = errors.New("time of the week")

// ParseWeek reads "[days] HH:MM-HH:MM [zone]": days are mon to sun, divided by commas, or all; the zone is one of the IANA
// database, or UTC. An end that is not after its start is on the next day.
func ParseWeek(text string) (*Week, error) {
	fields := strings.Fields(text)
	w := &Week{zone: time.UTC}
	if len(fields) > 0 && !strings.Contains(fields[0], ":") {
		for _, day := range strings.Split(fields[0], ",") {
			i := slices.Index([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, day)
			if i < 0 {
				return nil, fmt.Errorf("%w: %q is no day; days are mon, tue, wed, thu, fri, sat, sun", ErrWeek, day)
			}
			w.days[i] = true
		}
		fields = fields[1:]
	} else {
		w.days = [7]bool{true, true, true, true, true, true, true}
	}
	if len(fields) == 0 || len(fields) > 2 {
		return nil, fmt.Errorf("%w: %q is not days, HH:MM-HH:MM and a time zone", ErrWeek, text)
	}
	start, end, _ := strings.Cut(fields[0], "-")
	var ok1, ok2 bool
	w.from, ok1 = minutes(start)
	w.to, ok2 = minutes(end)
	if !ok1 || !ok2 || w.from == 24*60 {
		return nil, fmt.Errorf("%w: %q is not HH:MM-HH:MM", ErrWeek, fields[0])
	}
	if len(fields) == 2 {
		// The empty name and Local are what the machine is set to: the same rule would mean another time on another node.
		zone, err := time.LoadLocation(fields[1])
		if err != nil || fields[1] == "Local" {
			return nil, fmt.Errorf("%w: %q is no time zone, such as Asia/Shanghai", ErrWeek, fields[1])
		}
		w.zone = zone
	}
	return w, nil
}

// minutes reads HH:MM, 24:00 included.
func minutes(s string) (int, bool) {
	if len(s) != 5 || s[2] != ':' || strings.Trim(s[:2]+s[3:], "0123456789") != "" {
		return 0, false
	}
	h, m := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	return h*60 + m, m < 60 && (h < 24 || h == 24 && m == 0)
}

// Holds reports whether a moment lies in it.
func (w *Week) Holds(t time.Time) bool {
	t = t.In(w.zone)
	day, now := int(t.Weekday()), t.Hour()*60+t.Minute()
	if w.from < w.to {
		return w.days[day] && w.from <= now && now < w.to
	}
	// Over midnight: the rest of today, or what began yesterday.
	return w.days[day] && now >= w.from || w.days[(day+6)%7] && now < w.to
}
