package transfer

// Step leads from one version of a zone to the next one that was made.
type Step struct {
	From, To       uint32
	FromSOA, ToSOA string
	Gone, New      []string
}

// size is how many records a step sends.
func (s *Step) size() int { return 2 + len(s.Gone) + len(s.New) }

// maxSteps is how many steps are kept of a zone. A secondary that is further behind gets the zone whole.
const maxSteps = 100

// Zone is one version of a zone, and the way to it from some before. It is never changed.
type Zone struct {
	Name    []byte // wire form, lower case
	Serial  uint32
	SOA     string
	Content Content
	Steps   []Step // the last one leads here
}

// Next is the zone with another content; old is nil for the first. When the serial did not grow (RFC 1982) the way ends:
// control began anew.
func Next(old *Zone, name []byte, serial uint32, soa string, content Content) *Zone {
	z := &Zone{Name: name, Serial: serial, SOA: soa, Content: content}
	if old == nil || !Newer(serial, old.Serial) {
		return z
	}
	step := Step{From: old.Serial, To: serial, FromSOA: old.SOA, ToSOA: soa}
	step.Gone, step.New = diff(old.Content, content)
	z.Steps = append(append(z.Steps, old.Steps...), step)
	// No more is kept than the zone itself would be: from there on the whole zone is the shorter answer.
	room := max(len(content), minRoom)
	from := len(z.Steps)
	for from > 0 && len(z.Steps)-from < maxSteps && room >= z.Steps[from-1].size() {
		from--
		room -= z.Steps[from].size()
	}
	z.Steps = z.Steps[from:]
	return z
}

// minRoom lets small zones have a history too: so many records fit into one message.
const minRoom = 500

// Newer reports whether serial a is later than b (RFC 1982).
func Newer(a, b uint32) bool { return a != b && a-b < 1<<31 }

// diff walks two ordered contents.
func diff(old, next Content) (gone, added []string) {
	for i, j := 0, 0; i < len(old) || j < len(next); {
		switch {
		case j == len(next) || i < len(old) && old[i] < next[j]:
			gone = append(gone, old[i])
			i++
		case i == len(old) || next[j] < old[i]:
			added = append(added, next[j])
			j++
		default:
			next[j] = old[i] // one copy of what both have
			i, j = i+1, j+1
		}
	}
	return gone, added
}

// Whole is the zone as AXFR sends it.
func (z *Zone) Whole() [][]string {
	soa := []string{z.SOA}
	return [][]string{soa, z.Content, soa}
}

// Since is what IXFR sends to who has a serial: the SOA alone when there is nothing newer, the steps from there, or the whole
// zone when the way is not known any more.
func (z *Zone) Since(serial uint32) (records [][]string, incremental bool) {
	soa := []string{z.SOA}
	if !Newer(z.Serial, serial) {
		return [][]string{soa}, true
	}
	for i := range z.Steps {
		if z.Steps[i].From != serial {
			continue
		}
		records = append(records, soa)
		for _, s := range z.Steps[i:] {
			records = append(records, []string{s.FromSOA}, s.Gone, []string{s.ToSOA}, s.New)
		}
		return append(records, soa), true
	}
	return z.Whole(), false
}
