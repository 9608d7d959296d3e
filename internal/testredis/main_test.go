package testredis_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes this test program a child that says hello, repeats what it is told, and ends with its input.
const childEnv = "QUORUMLOCK_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		fmt.Println("hello")
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(lines.Text())
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
