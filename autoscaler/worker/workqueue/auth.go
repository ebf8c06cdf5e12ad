package workqueue

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what cctools uses
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"supercargo.dev/supercargo/internal/text/clip"
)

const (
	authMethod  = "auth password sha1"
	maxAuthLine = 1024
)

// ErrPassword is the error of a wrong password.
var ErrPassword = errors.New("does not match that of the manager")

// authenticate proves to the peer that we know the password, and verifies that the peer does, as link_auth of cctools.
// The protocol is symmetric. Each side sends the name of the method, then a random word, then the SHA-1 of the
// password, a space and the other's word, then whether the other's SHA-1 was right. A peer without a password answers
// something else.
func authenticate(conn io.ReadWriter, password string) error {
	challenge := rand.Text() + rand.Text()
	if err := sendLines(conn, authMethod); err != nil {
		return err
	}
	method, err := readLine(conn)
	if err != nil {
		return err
	}
	if method != authMethod {
		return fmt.Errorf("the manager answered %q, expected %q: check that it has a password", clip.Cell(method), authMethod)
	}
	if err := sendLines(conn, challenge); err != nil {
		return err
	}
	theirs, err := readLine(conn)
	if err != nil {
		return err
	}
	if err := sendLines(conn, proof(password, theirs)); err != nil {
		return err
	}
	answer, err := readLine(conn)
	if err != nil {
		return err
	}
	verdict := "failure"
	if subtle.ConstantTimeCompare([]byte(answer), []byte(proof(password, challenge))) == 1 {
		verdict = "ok"
	}
	if err := sendLines(conn, verdict); err != nil {
		return err
	}
	accepted, err := readLine(conn)
	if err != nil {
		return err
	}
	if verdict != "ok" || accepted != "ok" {
		return ErrPassword
	}
	return nil
}

func proof(password, challenge string) string {
	sum := sha1.Sum([]byte(password + " " + challenge)) //nolint:gosec // what cctools uses
	return hex.EncodeToString(sum[:])
}

func sendLines(w io.Writer, lines ...string) error {
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// readLine reads byte by byte, so that it does not consume data after the line.
func readLine(r io.Reader) (string, error) {
	var line []byte
	var one [1]byte
	for len(line) < maxAuthLine {
		if _, err := io.ReadFull(r, one[:]); err != nil {
			return "", fmt.Errorf("read: %w", err)
		}
		if one[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		line = append(line, one[0])
	}
	return "", fmt.Errorf("the manager sent a line of more than %d bytes", maxAuthLine)
}
