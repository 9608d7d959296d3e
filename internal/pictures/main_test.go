package pictures_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/pictures"
)

func TestMain(m *testing.M) {
	if pictures.Holder() {
		return
	}
	goleak.VerifyTestMain(m)
}
