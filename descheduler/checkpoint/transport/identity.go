// Package transport sends a checkpoint from the agent of one node to that of another.
//
// It is one HTTP PUT over TLS 1.3. Both sides present a certificate that was made for this
// migration, and accept only the one in the peer's report in the Migration. So whoever may write
// that report may act for the node. The body is compressed with zstd; the checksum of the
// uncompressed data follows as a trailer. A body that is truncated, altered or too long is
// refused.
//
// Both sides only use buffers of fixed size.
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

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// Identity is a private key and its certificate, both in PEM.
type Identity struct {
	Key, Certificate string
}

// NewIdentity makes an identity that is valid between two times. The name is for human readers:
// the peer compares the whole certificate.
func NewIdentity(name string, from, until time.Time) (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("create a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Identity{}, fmt.Errorf("create a certificate: %w", err)
	}
	if len(name) > 64 { // the maximum length of a common name
		name = name[:64]
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Identity{}, fmt.Errorf("create a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, fmt.Errorf("encode a key: %w", err)
	}
	return Identity{
		Key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, nil
}

// keyPair returns the identity for crypto/tls. The error never contains the key.
func (i Identity) keyPair() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(i.Certificate), []byte(i.Key))
	if err != nil {
		return pair, errors.New("the key and the certificate of this agent do not match")
	}
	return pair, nil
}

// pin accepts exactly one certificate.
type pin struct {
	der []byte
	now func() time.Time
}

// newPin parses exactly one certificate in PEM.
func newPin(certificate string, now func() time.Time) (pin, error) {
	block, rest := pem.Decode([]byte(certificate))
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return pin{}, errors.New("the peer's report does not have exactly one certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return pin{}, fmt.Errorf("read the peer's certificate in its report: %w", err)
	}
	return pin{der: block.Bytes, now: now}, nil
}

// matches is called after the handshake, which proves that the peer has the key.
func (p pin) matches(state tls.ConnectionState) error {
	if len(state.PeerCertificates) != 1 || !bytes.Equal(state.PeerCertificates[0].Raw, p.der) {
		return errors.New("the peer's certificate is not the one in its report in the Migration")
	}
	return nil
}

// inTime fails if the certificate of the right peer is not valid now. It was made for this
// migration, so a clock is wrong, and a retry does not help.
func (p pin) inTime(state tls.ConnectionState) error {
	certificate, now := state.PeerCertificates[0], p.now()
	if now.Before(certificate.NotBefore) || now.After(certificate.NotAfter) {
		return checkpoint.Fail(v1alpha1.MigrationReasonTransferFailed, "the certificate that the other node's agent created for this migration is valid from %s until %s, and the time on this node is %s: correct the clocks of both nodes",
			certificate.NotBefore.UTC().Format(time.RFC3339), certificate.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// check does both checks, for the client, which can report the error.
func (p pin) check(state tls.ConnectionState) error {
	if err := p.matches(state); err != nil {
		return err
	}
	return p.inTime(state)
}

// config is the TLS configuration of both sides. VerifyConnection is that of the client.
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
		// There is no authority: exactly one certificate is accepted, and compared whole.
		InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert, VerifyConnection: expected.check,
		SessionTicketsDisabled: true,
	}, nil
}
