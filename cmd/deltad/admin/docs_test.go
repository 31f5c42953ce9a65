package admin_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOperatingNamesEveryCall: the table of docs/operating.md has every path
// of the API with its method, and none that is not served.
func TestOperatingNamesEveryCall(t *testing.T) {
	const p = "/api/v1/pipelines/{p}"
	text, err := os.ReadFile("../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Over HTTP\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for _, m := range regexp.MustCompile("`(GET|POST) ([^`]+)`").FindAllStringSubmatch(section, -1) {
		named = append(named, m[1]+" "+strings.Replace(m[2], "…", p, 1))
	}
	code, err := os.ReadFile("read.go")
	if err != nil {
		t.Fatal(err)
	}
	_, routes, _ := strings.Cut(string(code), "func (s *Server) routes()")
	routes, _, _ = strings.Cut(routes, "return mux")
	var served []string
	for _, m := range regexp.MustCompile(`\b(get|post|on)\((?:"(/api/[^"]+)"|p(?:\+"([^"]+)")?), (.*)`).FindAllStringSubmatch(routes, -1) {
		path := m[2]
		if path == "" {
			path = p + m[3]
		}
		for method, says := range map[string]bool{
			http.MethodGet:  m[1] == "get" || strings.Contains(m[4], "MethodGet"),
			http.MethodPost: m[1] == "post" || strings.Contains(m[4], "MethodPost"),
		} {
			if says {
				served = append(served, method+" "+path)
			}
		}
	}
	slices.Sort(named)
	slices.Sort(served)
	if len(served) < 20 || !slices.Equal(named, served) {
		t.Errorf("docs/operating.md names\n%s\nserved are\n%s", strings.Join(named, "\n"), strings.Join(served, "\n"))
	}
}
