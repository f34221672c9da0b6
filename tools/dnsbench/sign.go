package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// signedFile is the zone of a phase whose zone is signed, for servers that do not sign by themselves, or are not to: all of them
// then send the same octets.
const signedFile = "zone.signed"

// signZone signs the zone file in work with a key for the keys and one for the rest (ECDSA P-256, NSEC), as our own server
// does.
func signZone(work string) error {
	for _, args := range [][]string{
		{"dnssec-keygen", "-q", "-a", "ECDSAP256SHA256", "-f", "KSK", zoneName},
		{"dnssec-keygen", "-q", "-a", "ECDSAP256SHA256", zoneName},
		{"dnssec-signzone", "-q", "-S", "-o", zoneName, "-f", signedFile, "zone"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s (apt-get install bind9-utils): %w: %s", args[0], err, out)
		}
	}
	_, err := os.Stat(filepath.Join(work, signedFile))
	return err
}
