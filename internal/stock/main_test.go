package stock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/stock"
)

func TestMain(m *testing.M) {
	stock.Serve()
	goleak.VerifyTestMain(m)
}
