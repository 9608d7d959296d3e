// Package kubernetes_test runs the command of the example as the Pods of several clusters would.
package kubernetes_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// podSpec is what the tests look at in the Pod of the CronJob.
type podSpec struct {
	RestartPolicy   string `yaml:"restartPolicy"`
	GracePeriod     int    `yaml:"terminationGracePeriodSeconds"`
	SecurityContext struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Containers []struct {
		Command         []string
		SecurityContext struct {
			ReadOnly bool `yaml:"readOnlyRootFilesystem"`
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name string
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name   string
		Secret struct {
			Name string `yaml:"secretName"`
		}
	}
}

type cronJob struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Spec       struct {
		Schedule         string
		Concurrency      string `yaml:"concurrencyPolicy"`
		StartingDeadline int    `yaml:"startingDeadlineSeconds"`
		JobTemplate      struct {
			Spec struct {
				BackoffLimit *int `yaml:"backoffLimit"`
				Template     struct{ Spec podSpec }
			}
		} `yaml:"jobTemplate"`
	}
}

type secret struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Data       map[string]string `yaml:"stringData"`
}

func parse(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, into))
}

func TestManifests_FitTogether(t *testing.T) {
	var job cronJob
	var config secret
	parse(t, "cronjob.yaml", &job)
	parse(t, "secret.yaml", &config)
	require.Equal(t, []string{"batch/v1", "CronJob", "v1", "Secret"}, []string{job.APIVersion, job.Kind, config.APIVersion, config.Kind})
	require.Len(t, strings.Fields(job.Spec.Schedule), 5)
	require.Equal(t, "Forbid", job.Spec.Concurrency)
	pod := job.Spec.JobTemplate.Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	require.True(t, pod.SecurityContext.RunAsNonRoot && pod.Containers[0].SecurityContext.ReadOnly)
	require.Equal(t, config.Metadata.Name, pod.Volumes[0].Secret.Name)
	require.Equal(t, pod.Volumes[0].Name, pod.Containers[0].VolumeMounts[0].Name)
	command := strings.Join(pod.Containers[0].Command, " ")
	require.Contains(t, command, "--config=/etc/redlock/redlock.json ")
	require.NotContains(t, command, "metrics-dir", "the file system is read-only")

	// A second attempt would find the lock kept, and succeed.
	require.Zero(t, *job.Spec.JobTemplate.Spec.BackoffLimit)
	require.Equal(t, "Never", pod.RestartPolicy)
	_, rest, found := strings.Cut(command, "--at-least=")
	require.True(t, found)
	atLeast, err := time.ParseDuration(strings.Fields(rest)[0])
	require.NoError(t, err)
	require.Greater(t, atLeast, time.Duration(job.Spec.StartingDeadline)*time.Second)
	require.Positive(t, pod.GracePeriod)
}

func TestCommand_OneClusterOfThreeRunsTheJob(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	out, err := exec.Command("go", "build", "-o", dir, "../../cmd/redlock").CombinedOutput()
	require.NoError(t, err, "%s", out)
	runs := filepath.Join(dir, "runs")
	write("report", "#!/bin/sh\necho ran >>"+runs+"\n", 0o700)

	var job cronJob
	var config secret
	parse(t, "cronjob.yaml", &job)
	parse(t, "secret.yaml", &config)
	servers := testredis.Real(t, 3)
	testredis.Account(t, servers, "locker", config.Data["password"], "cron:*")
	var flags map[string]any
	require.NoError(t, json.Unmarshal([]byte(config.Data["redlock.json"]), &flags))
	require.Len(t, flags["nodes"], len(servers))
	require.Equal(t, "/etc/redlock/password", flags["password-file"])
	flags["nodes"], flags["password-file"] = testredis.URLs(servers), filepath.Join(dir, "password")
	flags["timeout"] = "5s" // no machine is too busy for this test
	text, err := json.Marshal(flags)
	require.NoError(t, err)
	write("redlock.json", string(text), 0o400)
	write("password", config.Data["password"], 0o400)

	command := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command
	here := strings.NewReplacer("/etc/redlock", dir, "/usr/local/bin", dir)
	args := make([]string, len(command))
	for i, word := range command {
		args[i] = here.Replace(word)
	}
	for range 2 { // the second time all Pods are late
		var running sync.WaitGroup
		for range 3 {
			running.Go(func() {
				out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
				if err != nil || len(out) > 0 {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		running.Wait()
		content, err := os.ReadFile(runs)
		require.NoError(t, err)
		require.Equal(t, "ran\n", string(content))
	}
}
