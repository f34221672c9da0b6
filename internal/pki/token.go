package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	tokenIDBytes = 5 // 40 bits name a token among the few that are alive; they are no secret
	secretBytes  = 32
	hashBytes    = sha256.Size
)

// Token is what lets one machine join: it is used once and lives for an hour or so.
//
// Its text is id.secret.hash. The id names the token on record at control, which keeps only a hash of the secret. The
// last part pins the authority, so that the machine knows control from an impostor at its very first connection.
type Token struct {
	ID        string // 10 hex digits
	Secret    string // 32 random bytes, base64url without padding
	Authority string // hex SHA-256 of the authority's certificate (DER)
}

// NewToken makes a token for the authority of that hash.
func NewToken(authority string) Token {
	var random [tokenIDBytes + secretBytes]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return Token{
		ID:        hex.EncodeToString(random[:tokenIDBytes]),
		Secret:    base64.RawURLEncoding.EncodeToString(random[tokenIDBytes:]),
		Authority: authority,
	}
}

// ParseToken reads the text of a token; white space around it does not matter, since it often comes out of a file.
// The error is a *Refusal with code TOKEN_MALFORMED and never holds the text.
func ParseToken(text string) (Token, error) {
	bad := func(why string) (Token, error) {
		return Token{}, Refuse(TokenMalformed, "this is not a join token: "+why,
			"copy the whole line that `steer token create` printed")
	}
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 3 {
		return bad("a token has three parts with a dot between them")
	}
	t := Token{ID: parts[0], Secret: parts[1], Authority: parts[2]}
	if !isHex(t.ID, tokenIDBytes) {
		return bad("its first part is not 10 hex digits")
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(t.Secret)
	if err != nil || len(secret) != secretBytes || strings.ContainsAny(t.Secret, "\r\n") {
		return bad("its second part is not 43 characters of base64url")
	}
	if !isHex(t.Authority, hashBytes) {
		return bad("its last part is not 64 hex digits")
	}
	return t, nil
}

// String is the text of the token, secret included: it is for the operator's eyes and the join call, never for a log.
func (t Token) String() string { return t.ID + "." + t.Secret + "." + t.Authority }

// SecretHash is the hex SHA-256 of the secret: what is kept on record. The secret is 256 random bits, so a plain hash
// is as good as a slow one.
func (t Token) SecretHash() string {
	sum := sha256.Sum256([]byte(t.Secret))
	return hex.EncodeToString(sum[:])
}

// isHex reports whether text is n bytes in lower-case hex.
func isHex(text string, n int) bool {
	if len(text) != 2*n {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
