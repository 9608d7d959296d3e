package integration_test

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/ory/dockertest/v3"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/dev/testdatabase"
)

const (
	imageVariable = "QUORUMLOCK_REDIS_IMAGE"
	inCI          = "true" // the value of CI with which nothing may be left out
)

// leftOut says why the tests on containers are left out; empty if they run.
var leftOut string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(suite{m})
}

// suite is a testing.M that stops the databases at its end, and removes the containers, these also
// when it is interrupted.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.runOnContainers()
	if err := testdatabase.Close(); err != nil {
		fmt.Println(err)
		code = 1
	}
	return code
}

func (s suite) runOnContainers() int {
	if err := available(); err != nil {
		leftOut = fmt.Sprintf("the tests on Redis containers, as %v (make integration runs them)", err)
		if os.Getenv("CI") == inCI {
			fmt.Println("CI=true, but this would leave out:", leftOut)
			return 1
		}
		fmt.Println("LEFT OUT:", leftOut)
		return s.M.Run()
	}

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if sig, ok := <-interrupted; ok {
			fmt.Println(sig, "- removing the containers")
			if err := removeOwn(); err != nil {
				fmt.Println(err)
			}
			os.Exit(1)
		}
	}()

	code := s.M.Run()
	if err := removeOwn(); err != nil {
		fmt.Println(err)
		code = 1
	}
	signal.Stop(interrupted)
	close(interrupted)
	<-watching
	return code
}

// available says what the tests on containers lack.
func available() error {
	image := os.Getenv(imageVariable)
	if image == "" {
		return fmt.Errorf("%s is not set", imageVariable)
	}
	docker, err := dockertest.NewPool("")
	if err == nil {
		err = docker.Client.Ping()
	}
	if err != nil {
		return fmt.Errorf("no Docker daemon answers: %w", err)
	}
	if _, err := docker.Client.InspectImage(image); err != nil {
		return fmt.Errorf("the image %s is not here: %w", image, err)
	}
	return nil
}
