package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// maxTokenText bounds what is read as a token.
const maxTokenText = 4096

// dialWait bounds the look at a server's certificates.
const dialWait = 10 * time.Second

func (a *app) loginCommand() *cobra.Command {
	var tokenFile string
	c := &cobra.Command{
		Use:   "login --server URL",
		Short: "Remember a server and a token, for the commands of this user",
		Long: `Remember a server, a token and what vouches for the server, in $XDG_CONFIG_HOME/steerpoint/login.json (0600). Commands
go to the server that --server or $STEER_SERVER names, then to the one logged in to, and else to the process on this
machine; --data DIR goes before the login.

The token is read from --token-file FILE, from a terminal without showing it, or from standard input. One that ` + "`steer token\ncreate --api`" + ` made knows the authority of its server, so that no --ca is needed: a server that shows another is not told
the token.`,
		Example: "  steer login --server https://control.example.net:7070 --token-file token\n" +
			"  steer login --server https://control.example.net:7070 --ca ca.crt < token",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.login(cmd.Context(), tokenFile) },
	}
	c.Flags().StringVar(&tokenFile, "token-file", "", "file with the token, or - for standard input")
	return c
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Forget the server and the token that login remembered",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, was, err := a.place().Logout()
			if err != nil {
				return err
			}
			return a.show(struct {
				LoggedOut bool `json:"loggedOut"`
			}{was}, func(w io.Writer, _ text.Painter) {
				if !was {
					fmt.Fprintln(w, "there was no login")
					return
				}
				fmt.Fprintf(w, "logged out: %s is removed; the token itself is good until it is revoked\n", path)
			})
		},
	}
}

// login tries a server and a token, and remembers them when the server takes the token.
func (a *app) login(ctx context.Context, tokenFile string) error {
	place := a.place()
	server := strings.TrimRight(a.server, "/")
	if server == "" {
		server = strings.TrimRight(place.Env("STEER_SERVER"), "/")
	}
	if server == "" {
		return fault.Usage("no server was given", "say which: steer login --server https://HOST:7070")
	}
	if err := locate.CheckURL(server); err != nil {
		return err
	}
	token, err := a.loginToken(place, tokenFile)
	if err != nil {
		return err
	}
	l := locate.Login{Server: server, Token: token}
	ca := a.ca
	if ca == "" {
		ca = place.Env("STEER_CA")
	}
	if l.Authority, err = authorityOf(ctx, server, token, ca); err != nil {
		return err
	}
	c, err := clientOf(locate.Server{URL: server, Token: token, Authority: l.Authority})
	if err != nil {
		return err
	}
	v, err := c.Version(ctx)
	if err != nil {
		return err
	}
	path, err := place.SaveLogin(l)
	if err != nil {
		return err
	}
	return a.show(loggedIn{server, v.Node, v.Actor, v.Role, v.Services, path}, func(w io.Writer, _ text.Painter) { sayLogin(w, server, path, &v) })
}

// loggedIn is what programs are told of a login.
type loggedIn struct {
	Server   string   `json:"server"`
	Node     string   `json:"node"`
	Actor    string   `json:"actor"`
	Role     string   `json:"role"`
	Services []string `json:"services,omitempty"`
	File     string   `json:"file"`
}

func sayLogin(w io.Writer, server, path string, v *api.Version) {
	of := "every service"
	if len(v.Services) > 0 {
		of = strings.Join(v.Services, ", ")
	}
	fmt.Fprintf(w, "logged in to %s (steer %s on %s) as %s: %s of %s\nkept in %s; `steer logout` forgets it\n", server, v.Version, v.Node, v.Actor, v.Role, of, path)
}

// loginToken reads the token: as it was given, from a file, or from whoever types it.
func (a *app) loginToken(place locate.Options, file string) (string, error) {
	token := a.token
	if token == "" && file == "" {
		token = place.Env("STEER_TOKEN")
	}
	var err error
	if token == "" {
		if token, err = a.readToken(file); err != nil {
			return "", fault.BadInput("TOKEN_UNREADABLE", "the token cannot be read", err.Error(), "give --token-file FILE, or - for standard input")
		}
	}
	token = strings.TrimSpace(token)
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fault.BadInput("TOKEN_UNREADABLE", "what was given is no token", "a token is one line of printable characters", "copy the whole line that `steer token create --api` printed")
	}
	return token, nil
}

func (a *app) readToken(file string) (string, error) {
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxTokenText))
		return string(b), err
	}
	if in, ok := a.in.(*os.File); ok && file == "" && term.IsTerminal(int(in.Fd())) {
		fmt.Fprint(a.errs, "token: ")
		b, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(a.errs)
		return string(b), err
	}
	line, err := bufio.NewReader(io.LimitReader(a.in, maxTokenText)).ReadString('\n')
	if err != nil && line == "" {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return line, nil
}

// authorityOf is the certificate that is to vouch for a server: the one in the file, or the one whose hash stands in the
// token and that the server shows. "": those the system trusts are to.
func authorityOf(ctx context.Context, server, token, file string) (string, error) {
	if file != "" {
		if _, err := trusting(file); err != nil {
			return "", err
		}
		b, err := os.ReadFile(file)
		return string(b), err
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" {
		return "", err
	}
	parts := strings.Split(token, ".")
	if len(parts) != 4 {
		return "", nil // the admin token of a folder, say
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "443")
	}
	// Nothing is sent over this connection, and what it shows is only looked through for the one that the token names. The
	// client that follows verifies name, time and chain by it.
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%w at %s: %w", api.ErrUnreachable, server, err)
	}
	defer conn.Close()
	if t, ok := conn.(*tls.Conn); ok {
		for _, cert := range t.ConnectionState().PeerCertificates {
			if sum := sha256.Sum256(cert.Raw); hex.EncodeToString(sum[:]) == parts[3] {
				return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})), nil
			}
		}
	}
	return "", nil // a proxy in between, with a certificate that the system may trust
}
