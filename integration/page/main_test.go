package page_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/integration/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tool.Tests{M: m}) }
