// Package transport brings a checkpoint from the agent of one node to that of another.
//
// It is one HTTP PUT over TLS 1.3. Both sides show a certificate that was made for this
// one migration, and each takes no other than the one that the peer's report in the
// Migration has: so who may write that report is who may speak for the node. The body
// is compressed with zstd; the checksum of what was compressed comes behind it, as a
// trailer. A body that is cut short, or altered, or longer than allowed is refused.
//
// Neither side holds more than some buffers of fixed size in memory.
package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// Identity is a private key and the certificate that goes with it, both in PEM.
type Identity struct {
	Key, Certificate string
}

// NewIdentity makes one that is good between two points in time. The name is for people
// who look at it: what counts is that the peer knows the certificate.
func NewIdentity(name string, from, until time.Time) (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Identity{}, fmt.Errorf("make a certificate: %w", err)
	}
	if len(name) > 64 { // the most that a common name may have
		name = name[:64]
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Identity{}, fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, fmt.Errorf("write down a key: %w", err)
	}
	return Identity{
		Key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, nil
}

// keyPair is the identity as crypto/tls wants it. The error never has the key.
func (i Identity) keyPair() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(i.Certificate), []byte(i.Key))
	if err != nil {
		return pair, errors.New("the key and the certificate of this side do not go together")
	}
	return pair, nil
}

// pin takes one certificate and no other.
type pin struct {
	der []byte
	now func() time.Time
}

// newPin reads a certificate in PEM: exactly one.
func newPin(certificate string, now func() time.Time) (pin, error) {
	block, rest := pem.Decode([]byte(certificate))
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return pin{}, errors.New("the peer's certificate in its report is not one certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return pin{}, fmt.Errorf("read the peer's certificate in its report: %w", err)
	}
	return pin{der: block.Bytes, now: now}, nil
}

// matches is called once the handshake has shown that the peer has the key.
func (p pin) matches(state tls.ConnectionState) error {
	if len(state.PeerCertificates) != 1 || !bytes.Equal(state.PeerCertificates[0].Raw, p.der) {
		return errors.New("the peer shows another certificate than its report in the Migration has")
	}
	return nil
}

// inTime fails if the certificate of a peer that is the right one is not good now. As it
// was made for this one migration, that is a matter of clocks: asking again does not help.
func (p pin) inTime(state tls.ConnectionState) error {
	certificate, now := state.PeerCertificates[0], p.now()
	if now.Before(certificate.NotBefore) || now.After(certificate.NotAfter) {
		return checkpoint.Fail(checkpoint.ReasonTransferFailed, "the certificate that the other node's agent made for this migration is good from %s until %s, and here it is %s: set the clocks of both nodes right",
			certificate.NotBefore.UTC().Format(time.RFC3339), certificate.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// check is both, for the side that can say what is wrong.
func (p pin) check(state tls.ConnectionState) error {
	if err := p.matches(state); err != nil {
		return err
	}
	return p.inTime(state)
}

// config is what both sides have in common. VerifyConnection is that of the side which
// calls.
func config(self Identity, peer string, now func() time.Time) (*tls.Config, error) {
	pair, err := self.keyPair()
	if err != nil {
		return nil, err
	}
	expected, err := newPin(peer, now)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"},
		// There is no authority: one certificate is right, and it is compared whole.
		InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert, VerifyConnection: expected.check,
		SessionTicketsDisabled: true,
	}, nil
}
