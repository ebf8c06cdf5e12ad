package servingcert

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
	"net"
	"time"
)

const (
	// Lifetime is how long a certificate is valid.
	Lifetime = 365 * 24 * time.Hour
	// Skew is how long before its creation a certificate becomes valid, because clocks differ.
	Skew = time.Hour
	// RenewBefore is the remaining lifetime at which a certificate is replaced.
	RenewBefore = Lifetime / 3
)

// Pair is a certificate with its key and the authorities to trust, all in PEM.
type Pair struct {
	Certificate, Key, Authorities []byte
}

// New creates a pair for hosts, which are names or IP addresses. before are the authorities of the previous pair, which
// may be nil: the newest unexpired one stays in the bundle.
func New(hosts []string, before []byte, now time.Time) (Pair, error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("create a key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("create a key: %w", err)
	}
	authority, err := template("supercargo authority", now)
	if err != nil {
		return Pair{}, err
	}
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	server, err := template("supercargo", now)
	if err != nil {
		return Pair{}, err
	}
	server.KeyUsage, server.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("create a certificate authority: %w", err)
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, authorityKey)
	if err != nil {
		return Pair{}, fmt.Errorf("create a certificate for %v: %w", hosts, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode a key: %w", err)
	}
	return Pair{
		Certificate: encode("CERTIFICATE", serverDER),
		Key:         encode("EC PRIVATE KEY", keyDER),
		Authorities: append(encode("CERTIFICATE", authorityDER), good(before, now)...),
	}, nil
}

func template(name string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("create a serial number: %w", err)
	}
	return &x509.Certificate{
		// Authorities with equal names would be mistaken for each other.
		Subject:      pkix.Name{CommonName: fmt.Sprintf("%s %x", name, serial)},
		SerialNumber: serial, NotBefore: now.Add(-Skew), NotAfter: now.Add(Lifetime),
	}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// good returns the newest unexpired authority of a bundle. Older ones have signed no certificate that is still served.
func good(bundle []byte, now time.Time) []byte {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			return pem.EncodeToMemory(block)
		}
	}
	return nil
}

// Check returns the reason why a pair cannot serve hosts any more or expires soon, or nil.
func (p Pair) Check(hosts []string, now time.Time) error {
	pair, err := p.TLS()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.Authorities) {
		return errors.New("it has no certificate authority")
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("it is not trusted: %w", err)
	}
	for _, host := range hosts {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			return fmt.Errorf("it is not valid for %s: %w", host, err)
		}
	}
	if !now.Before(pair.Leaf.NotAfter.Add(-RenewBefore)) {
		return fmt.Errorf("it expires at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// TLS returns the certificate and key for a server.
func (p Pair) TLS() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(bytes.TrimSpace(p.Certificate), p.Key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return &pair, nil
}
