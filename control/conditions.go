package control

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"steerpoint/control/api"
)

// IfNoneMatch is the condition of a reader (RFC 9110, section 13). It is exported for the frame of the API, as Conditions
// is.
type IfNoneMatch struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"1000" doc:"ETags, or *. GET: 304 if one of them is current. PUT and DELETE: refused then; * is a resource that must not exist yet" example:"\"42\""`
}

// Conditions are those of a writer.
type Conditions struct {
	IfNoneMatch
	IfMatch string `header:"If-Match" maxLength:"1000" doc:"ETags, or *: refused unless one of them is current; * is any" example:"\"42\""`
}

// given reports whether there is a condition at all.
func (in *Conditions) given() bool { return in.IfMatch != "" || in.IfNoneMatch.IfNoneMatch != "" }

// check holds the conditions against what is stored, revision 0 for nothing, and refuses what they do not allow. What says
// what it is, for people.
func (in *Conditions) check(what string, revision int64) error {
	want, err := parseTags("header.If-Match", in.IfMatch)
	if err != nil {
		return err
	}
	if in.IfMatch != "" && !want.match(revision, false) {
		return stale(what, revision, in.IfMatch, want.weak(revision))
	}
	unwanted, err := parseTags("header.If-None-Match", in.IfNoneMatch.IfNoneMatch)
	if err != nil {
		return err
	}
	if in.IfNoneMatch.IfNoneMatch != "" && unwanted.match(revision, true) {
		return problem(http.StatusPreconditionFailed, api.CodePreconditionFailed, "It is there",
			fmt.Sprintf("%s has revision %d, which If-None-Match rules out: read it, and replace it with If-Match", what, revision))
	}
	return nil
}

func stale(what string, revision int64, header string, weak bool) *api.Problem {
	detail := fmt.Sprintf("%s has revision %d, not %s: read it again and repeat", what, revision, header)
	switch {
	case revision == 0:
		detail = what + " is not there, so it has no revision"
	case weak:
		detail = fmt.Sprintf("%s: a weak ETag (W/) says only that something means the same, so nothing is written by it: give %s as the server did", what, api.ETag(revision))
	}
	return problem(http.StatusPreconditionFailed, api.CodePreconditionFailed, "Revision differs", detail)
}

// unchanged reports whether a reader has this revision already.
func (in *IfNoneMatch) unchanged(revision int64) (bool, error) {
	have, err := parseTags("header.If-None-Match", in.IfNoneMatch)
	return in.IfNoneMatch != "" && have.match(revision, true), err
}

// entityTags are those of a conditional header.
type entityTags struct {
	any  bool
	list []entityTag
}

type entityTag struct {
	weak   bool
	opaque string
}

// match compares with the tag of a revision, 0 for nothing. Weakly, W/ makes no difference; otherwise a weak tag is equal
// to none (RFC 9110, section 8.8.3.2).
func (t *entityTags) match(revision int64, weakly bool) bool {
	if revision == 0 {
		return false
	}
	for _, e := range t.list {
		if e.opaque == strconv.FormatInt(revision, 10) && (weakly || !e.weak) {
			return true
		}
	}
	return t.any
}

// weak reports whether the revision is there as a weak tag only.
func (t *entityTags) weak(revision int64) bool {
	return t.match(revision, true) && !t.match(revision, false)
}

// parseTags reads If-Match or If-None-Match. A bare number is taken for a tag: people leave the quotes away.
func parseTags(where, header string) (entityTags, error) {
	header = strings.Trim(header, " \t")
	if header == "*" {
		return entityTags{any: true}, nil
	}
	var out entityTags
	for rest := header; rest != ""; {
		var e entityTag
		if rest, e.weak = strings.CutPrefix(rest, "W/"); strings.HasPrefix(rest, `"`) {
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				return out, badRequest(where, "%s is not a list of ETags, such as \"42\", or *", header)
			}
			e.opaque, rest = rest[1:end+1], rest[end+2:]
		} else {
			e.opaque, rest = cutNumber(rest)
		}
		rest = strings.TrimLeft(rest, " \t")
		if after, comma := strings.CutPrefix(rest, ","); comma {
			rest = strings.TrimLeft(after, " \t,")
		} else if rest != "" {
			return out, badRequest(where, "%s is not a list of ETags, such as \"42\", or *", header)
		}
		if e.opaque == "" {
			return out, badRequest(where, "%s is not a list of ETags, such as \"42\", or *", header)
		}
		out.list = append(out.list, e)
	}
	return out, nil
}

// cutNumber parts the digits at the beginning from the rest.
func cutNumber(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}
