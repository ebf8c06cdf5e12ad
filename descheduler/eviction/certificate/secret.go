package certificate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// secretBytes is the number of random bytes in the secret of a URL: as many as in a key.
const secretBytes = 32

// urlSecret holds the accepted secrets: the current one, and the previous one, which the API
// server may still use.
type urlSecret struct{ now, before string }

// is reports whether a text is one of the two. The comparison takes constant time.
func (s *urlSecret) is(text string) bool {
	if s == nil {
		return false
	}
	given, found := sha256.Sum256([]byte(text)), 0
	for _, known := range []string{s.now, s.before} {
		want := sha256.Sum256([]byte(known))
		if len(known) == 2*secretBytes {
			found |= subtle.ConstantTimeCompare(given[:], want[:])
		}
	}
	return found == 1
}

// secretOf returns the secrets in the data of a Secret.
func secretOf(data map[string][]byte) *urlSecret {
	return &urlSecret{now: string(data[secretKey]), before: string(data[secretBeforeKey])}
}

// renewSecret writes a new secret to the data of a Secret if there is none, or if the current one
// is older than secretEvery, and reports whether it did.
func renewSecret(data map[string][]byte, now time.Time) bool {
	since, err := time.Parse(time.RFC3339, string(data[secretSinceKey]))
	// A time in the future is replaced too: a clock may have been corrected.
	if age := now.Sub(since); err == nil && len(data[secretKey]) == 2*secretBytes && age >= -secretEvery && age < secretEvery {
		return false
	}
	made := make([]byte, secretBytes)
	_, _ = rand.Read(made) // it never fails
	data[secretBeforeKey] = data[secretKey]
	data[secretKey] = []byte(hex.EncodeToString(made))
	data[secretSinceKey] = []byte(now.UTC().Format(time.RFC3339))
	return true
}

// Knows reports whether a text is the secret of the webhook's URL. A text that it does not know
// may be newer than the secrets that it has read, since another replica made it. Then it reads
// the Secret, with one rate-limited read for all callers.
func (k *Keeper) Knows(ctx context.Context, text string) bool {
	if k.known.Load().is(text) {
		return true
	}
	if len(text) != 2*secretBytes {
		return false
	}
	// A read that began before this call may be too old.
	for range 2 {
		read := k.reading.DoChan("", func() (any, error) {
			k.refresh(context.WithoutCancel(ctx))
			return nil, nil
		})
		select {
		case <-read:
		case <-ctx.Done():
			return false
		}
		if k.known.Load().is(text) {
			return true
		}
	}
	return false
}

// refresh reads the secrets, at least rereadEvery after the last read.
func (k *Keeper) refresh(ctx context.Context) {
	if wait := k.reread.Add(rereadEvery).Sub(k.Clock.Now()); wait > 0 {
		<-k.Clock.After(min(wait, rereadEvery))
	}
	k.reread = k.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, rereadEvery)
	defer cancel()
	var secret corev1.Secret
	if err := k.Secret.Live.Get(ctx, k.Secret.Name, &secret); err != nil {
		k.Log.Error(err, "Failed to read the secret of the webhook's URL; the last known one remains valid", "secret", k.Secret.Name)
		return
	}
	k.known.Store(secretOf(secret.Data))
}
