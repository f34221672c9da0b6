package issue

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// maxWait bounds every wait: an authority that says "in a year" is asked again tomorrow.
const maxWait = 24 * time.Hour

// waits are the times to the next try, by how many failed in a row. Within an hour they make four: Let's Encrypt refuses a name
// after five failed proofs in an hour.
var waits = [...]time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour}

// Wait is how long to wait after so many failures in a row, with up to a fifth more so that many do not come at once. What the
// authority asks for is the least.
func Wait(failures int, after time.Duration) time.Duration {
	d := waits[min(max(failures, 1), len(waits))-1]
	d = min(max(d, after), maxWait)
	return d + rand.N(d/5+1)
}

// RenewAt is when a certificate is renewed: before its end, by at most a third of its life. Certificates of one day are spread over a
// twentieth of that time, earlier.
func RenewAt(notBefore, notAfter time.Time, before time.Duration, name string) time.Time {
	before = min(before, notAfter.Sub(notBefore)/3)
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	spread := before / 20
	return notAfter.Add(-before - spread*time.Duration(h.Sum32()%1000)/1000)
}
