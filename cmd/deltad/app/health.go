package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deltad/deltad/configs"
)

// healthTime is how long health waits by default: longer than the endpoint
// takes over each question of /readyz.
const healthTime = 4 * time.Second

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// healthCommand is the health check of images that have neither a shell nor
// curl: the binary asks the daemon beside it. It exits with 0 or 1 whatever is
// wrong, because container engines keep other codes for themselves.
func (c *cli) healthCommand() *cobra.Command {
	var base, tokenFile string
	var ready bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "ask a running daemon whether it is alive, or with --ready whether it can work", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin := configs.Admin{TokenFile: tokenFile}
			if base == "" {
				var err error
				if admin, err = c.adminOf(); err != nil {
					return failed(err)
				}
				if base, err = urlOf(admin.Listen); err != nil {
					return failed(err)
				}
			}
			ctx, stop := context.WithTimeout(cmd.Context(), timeout)
			defer stop()
			line := health(ctx, base, ready, admin.Token)
			if err := c.say(line, line.URL+": "+line.State); err != nil {
				return failed(err)
			}
			if !line.Healthy {
				return &exitError{code: exitFailed}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&ready, "ready", false, "ask /readyz: can state store and outputs be read; else /healthz: does the process answer")
	f.StringVar(&base, "url", "", "the endpoint, such as http://127.0.0.1:8480; without it admin.listen of the configuration")
	f.StringVar(&tokenFile, "token-file", "", "with --url: the file of the bearer token, for a proxy that wants it")
	f.DurationVar(&timeout, "timeout", healthTime, "how long to wait for the answer")
	return cmd
}

// adminOf reads the admin section alone. What is wrong elsewhere in the file
// is no business of a daemon that is running with the file before it.
func (c *cli) adminOf() (configs.Admin, error) {
	cfg, err := configs.Load(c.config, os.LookupEnv)
	if cfg == nil {
		return configs.Admin{}, err
	}
	var problems configs.Problems
	errors.As(err, &problems)
	for _, p := range problems {
		if p.Path == "admin" || strings.HasPrefix(p.Path, "admin.") {
			return configs.Admin{}, err
		}
	}
	return cfg.Admin, nil
}

// urlOf is where a listener of this machine is reached: one that listens on
// every address is on loopback too.
func urlOf(listen string) (string, error) {
	if listen == "" {
		return "", errors.New("admin.listen is empty: there is no endpoint to ask")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("admin.listen: must be host:port, got %q", listen)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.IsUnspecified() && ip.Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// healthLine is what health prints.
type healthLine struct {
	URL     string `json:"url"`
	Healthy bool   `json:"healthy"`
	// Status is that of HTTP; 0 where nothing answered.
	Status int    `json:"status"`
	State  string `json:"state"`
}

// health asks once. The token goes only to an endpoint that says it needs it:
// deltad's own answers these two paths without.
func health(ctx context.Context, base string, ready bool, token func() (secret, warning string, err error)) healthLine {
	path := "/healthz"
	if ready {
		path = "/readyz"
	}
	line := healthLine{URL: strings.TrimSuffix(base, "/") + path}
	status, body, err := askHealth(ctx, line.URL, "")
	if err == nil && status == http.StatusUnauthorized {
		var secret string
		if secret, _, err = token(); err == nil && secret != "" {
			status, body, err = askHealth(ctx, line.URL, secret)
		}
	}
	line.Status = status
	if err != nil {
		line.State = err.Error()
		return line
	}
	line.Healthy, line.State = status == http.StatusOK, stateOf(status, body)
	return line
}

// askHealth sends one request, never through a proxy: the daemon is here.
func askHealth(ctx context.Context, target, token string) (status int, body []byte, err error) {
	if u, err := url.Parse(target); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return 0, nil, fmt.Errorf("--url: must be http://host:port or https://host:port, got %q", target)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("ask for health: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the rest of it repeats the URL
		}
		return 0, nil, fmt.Errorf("ask for health: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only: nothing can be lost
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("read the answer about health: %w", err)
	}
	return resp.StatusCode, body, nil
}

// stateOf puts an answer into a few words: the daemon's own, or the checks
// that are not ready.
func stateOf(status int, body []byte) string {
	var v struct {
		Status string `json:"status"`
		Ready  *bool  `json:"ready"`
		Checks []struct {
			Name  string `json:"name"`
			Ready bool   `json:"ready"`
			Error string `json:"error"`
		} `json:"checks"`
	}
	text := fmt.Sprintf("answered %d", status)
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&v); err != nil {
		return text
	}
	switch {
	case v.Status != "" && status == http.StatusOK:
		return v.Status
	case v.Ready != nil && *v.Ready:
		return "ready"
	case v.Ready == nil:
		return text
	}
	var not []string
	for _, c := range v.Checks {
		if !c.Ready {
			not = append(not, strings.TrimSuffix(c.Name+": "+c.Error, ": "))
		}
	}
	return "not ready: " + strings.Join(not, ", ")
}
