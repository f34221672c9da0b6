package wan

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Change returns p with what the words say: delay=20ms, jitter=2ms, loss=10% or loss=0.1, rate=10mbit (or kbit, gbit),
// queue=50ms, reorder, inorder, cut, heal. What they do not name stays. The result is valid, or err says which word is
// not understood or what does not fit.
func (p Pair) Change(words ...string) (Pair, error) {
	for _, word := range words {
		if err := p.change(word); err != nil {
			return Pair{}, fmt.Errorf("%s: %w", word, err)
		}
	}
	return p, p.Validate()
}

func (p *Pair) change(word string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "delay":
		p.Delay, err = time.ParseDuration(value)
	case "jitter":
		p.Jitter, err = time.ParseDuration(value)
	case "loss":
		p.Loss, err = share(value)
	case "rate":
		p.Rate, err = rate(value)
	case "queue":
		p.Queue, err = time.ParseDuration(value)
	case "reorder", "inorder":
		p.Reorder = key == "reorder"
	case "cut", "heal":
		p.Cut = key == "cut"
	default:
		err = fmt.Errorf("want delay=, jitter=, loss=, rate=, queue=, reorder, inorder, cut or heal")
	}
	return err
}

// share reads 10% or 0.1.
func share(s string) (float64, error) {
	percent, isPercent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(percent, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no share: write 10%% or 0.1", s)
	}
	if isPercent {
		f /= 100
	}
	return f, nil
}

// rate reads 100kbit, 10mbit or 1gbit.
func rate(s string) (int64, error) {
	for _, unit := range []struct {
		name string
		bits float64
	}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}} {
		if number, ok := strings.CutSuffix(s, unit.name); ok {
			f, err := strconv.ParseFloat(number, 64)
			if err != nil || f < 0 || f*unit.bits > 1e12 {
				break
			}
			return int64(f * unit.bits), nil
		}
	}
	if s == "0" {
		return 0, nil
	}
	return 0, fmt.Errorf("%q is no rate: write 100kbit, 10mbit or 1gbit, or 0 for no limit", s)
}
