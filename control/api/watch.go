package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxEventLine bounds one line of the watch stream; events are a few hundred bytes.
const maxEventLine = 1 << 20

// Watch calls f for every event after the one with ID last (0: from now on) until ctx ends, f returns an error or the
// server goes away. Service narrows it; "" is everything. It returns the ID to go on from: call again with it to
// resume. An Event of kind gap says that some are lost.
func (c *Client) Watch(ctx context.Context, service string, last uint64, f func(Event) error) (uint64, error) {
	r := newCall(http.MethodGet, "/watch")
	r.setQuery("service", service)
	if last > 0 {
		r.setHeader("Last-Event-ID", strconv.FormatUint(last, 10))
	}
	res, err := c.send(ctx, r, "text/event-stream")
	if err != nil {
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
		return last, err
	}
	defer res.Body.Close()
	sc := bufio.NewScanner(res.Body)
	sc.Buffer(nil, maxEventLine)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data:")
		if !ok {
			continue
		}
		var e Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return last, fmt.Errorf("event: %w", err)
		}
		last = e.ID
		if err := f(e); err != nil {
			return last, err
		}
	}
	if ctx.Err() != nil {
		return last, ctx.Err()
	}
	if err := sc.Err(); err != nil {
		return last, unreachable(c.base, err)
	}
	return last, nil
}
