package adopt

import (
	"testing"

	"supercargo.dev/supercargo/test/kit/sentences"
)

func TestEachSentenceIsPrintedOnlyWhereItIsTrue(t *testing.T) {
	sentences.Check(t, []string{"*.go"}, nil, nil)
}
