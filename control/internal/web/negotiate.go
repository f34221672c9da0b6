package web

import (
	"mime"
	"strconv"
	"strings"
)

// Accepts reports whether one of the offered media types is acceptable by the Accept headers of a request (RFC 9110,
// section 12.5.1). No header accepts everything, and so does an offer of nothing.
func Accepts(headers []string, offers ...string) bool {
	ranges := strings.Split(strings.Join(headers, ","), ",")
	if len(offers) == 0 || strings.TrimSpace(strings.Join(ranges, "")) == "" {
		return true
	}
	for _, offer := range offers {
		if quality(ranges, offer) > 0 {
			return true
		}
	}
	return false
}

// quality is the weight that the most specific range gives to a media type; 0: not acceptable.
func quality(ranges []string, offer string) float64 {
	best, weight := -1, 0.0
	kind, _, _ := strings.Cut(offer, "/")
	for _, r := range ranges {
		name, params, _ := strings.Cut(r, ";")
		specific := -1
		switch strings.ToLower(strings.TrimSpace(name)) {
		case offer:
			specific = 2
		case kind + "/*":
			specific = 1
		case "*/*":
			specific = 0
		}
		if specific > best {
			best, weight = specific, weightOf(params)
		}
	}
	return weight
}

// weightOf reads the q of a media range; 1 without one that can be read.
func weightOf(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return q
			}
		}
	}
	return 1
}

// MediaType is the media type of a Content-Type header without parameters, in lower case; "" if it is none.
func MediaType(header string) string {
	t, _, err := mime.ParseMediaType(header)
	if err != nil && t == "" {
		return ""
	}
	return t
}
