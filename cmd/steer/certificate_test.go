package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"steerpoint/internal/acmetest"
)

// sessionProgram runs one of the programs of sessions.
func sessionProgram(name string, f func(args []string) error) func() {
	return func() {
		if err := f(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
	}
}

// makeCert is the program `makecert PREFIX SERIAL NAME...`: a certificate that signs itself, in PREFIX.crt with its key in PREFIX.key, and
// both as a Secret named PREFIX in PREFIX.yaml.
func makeCert(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: makecert PREFIX SERIAL NAME...")
	}
	serial, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "makecert"}, DNSNames: args[2:],
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	chain, text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	secret := fmt.Sprintf("apiVersion: steerpoint/v1\nkind: Secret\nname: %s\ndata:\n  chain: %q\n  key: %q\n", args[0], chain, text)
	for name, b := range map[string][]byte{args[0] + ".crt": chain, args[0] + ".key": text, args[0] + ".yaml": []byte(secret)} {
		if err := os.WriteFile(name+".new", b, 0o600); err != nil {
			return err
		}
		if err := os.Rename(name+".new", name); err != nil {
			return err
		}
	}
	return nil
}

// shake is the program `shake ADDR:PORT NAME`: a TLS handshake for a name; prints who signed the certificate, its serial number and
// names, or that it was refused.
func shake(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: shake ADDR:PORT NAME")
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 30 * time.Second}, Config: &tls.Config{ServerName: args[1], InsecureSkipVerify: true}}
	c, err := d.Dial("tcp", args[0])
	if err != nil {
		fmt.Println("refused:", err)
		return nil
	}
	defer c.Close()
	t, _ := c.(*tls.Conn)
	leaf := t.ConnectionState().PeerCertificates[0]
	fmt.Println(leaf.Issuer.CommonName, leaf.SerialNumber, strings.Join(leaf.DNSNames, " "))
	return nil
}

// holdTLS is the program `holdtls ADDR:PORT NAME STOP`: it asks over one connection until there is a file STOP, and says how often it was
// answered.
func holdTLS(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: holdtls ADDR:PORT NAME STOP")
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 30 * time.Second}, Config: &tls.Config{ServerName: args[1], InsecureSkipVerify: true}}
	c, err := d.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for n := 0; ; n++ {
		if _, err := os.Stat(args[2]); err == nil && n > 0 {
			fmt.Println("held: answered over one connection")
			return nil
		}
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", args[1]); err != nil {
			return err
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("answer %d: %w", n+1, err)
		}
		if _, err = io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("answer %d: %s, %w", n+1, res.Status, err)
		}
		time.Sleep(poll)
	}
}

// acmeCert is the program `acmecert NAME DIRECTORY ROOTS NAMES...`: it prints a Certificate that is ordered from an authority.
func acmeCert(args []string) error {
	if len(args) < 4 {
		return errors.New("usage: acmecert NAME DIRECTORY ROOTS NAMES...")
	}
	roots, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	fmt.Printf("apiVersion: steerpoint/v1\nkind: Certificate\nname: %s\nnames: [\"%s\"]\nacme: {directory: %q, roots: %q}\n",
		args[0], strings.Join(args[3:], `", "`), args[1], roots)
	return nil
}

// acme is the program `acme ADDR:PORT HTTP DNS ROOTS`: a certificate authority at ADDR:PORT that finds port 80 of every name at HTTP and
// asks DNS for records. What signs its own certificate it writes to the file ROOTS.
func acme(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: acme ADDR:PORT HTTP DNS ROOTS")
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	ca, err := acmetest.New(acmetest.Config{
		Listener: l, Dial: func(string) string { return args[1] },
		TXT: func(name string) (out []string, err error) {
			in, _, err := (&dns.Client{Timeout: 10 * time.Second}).Exchange(question(name, dns.TypeTXT, netip.Prefix{}), args[2])
			if err != nil {
				return nil, err
			}
			for _, rr := range in.Answer {
				if t, ok := rr.(*dns.TXT); ok {
					out = append(out, strings.Join(t.Txt, ""))
				}
			}
			return out, nil
		},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[3]+".new", []byte(ca.Roots()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(args[3]+".new", args[3]); err != nil {
		return err
	}
	select {} // until it is killed
}
