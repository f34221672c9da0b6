package store

import (
	"bytes"
	"sync"
	"testing"
)

// TestCookieMaster: it is made once, whoever asks first, and is the same after a restart.
//
// Covers: issue5 cookies
func TestCookieMaster(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var wg sync.WaitGroup
	got := make([][]byte, 4)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = s.CookieMaster(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, s.Close())
	again, err := open(t, dir).CookieMaster(t.Context())
	must(t, err)
	for i := range got {
		if len(got[i]) != cookieBytes || !bytes.Equal(got[i], again) {
			t.Errorf("caller %d got %d octets, others than after a restart: %t", i, len(got[i]), !bytes.Equal(got[i], again))
		}
	}
}
