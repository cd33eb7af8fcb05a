package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the Markdown files that readers see, without their blocks of code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/concepts/*.md", "docs/zh/*.md", "docs/zh/concepts/*.md", "test/*.md", "test/bench/*.md"} {
		files, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = codeBlock.ReplaceAllString(string(text), "")
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d pages", len(all))
	}
	return all
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	code      = regexp.MustCompile("`[^`\n]*`")
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdID      = regexp.MustCompile(`<a id="([^"]+)">`)
	mdHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	heading = strings.ToLower(heading)
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

// anchors returns the anchors of a page.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range mdID.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	for _, m := range mdHeading.FindAllStringSubmatch(text, -1) {
		all[anchor(m[1])] = true
	}
	return all
}

// TestLinks checks that each link within the repository leads to a file and an anchor in it.
func TestLinks(t *testing.T) {
	all, links := pages(t), 0
	for file, text := range all {
		for _, m := range mdLink.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			path, id, _ := strings.Cut(m[1], "#")
			to := file
			if path != "" {
				to = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if id != "" && !anchors(all[to])[id] {
				t.Errorf("%s: nothing in %s is called #%s", file, to, id)
			}
		}
	}
	if links < 30 {
		t.Errorf("%d links", links)
	}
}

// term is a row of the glossary.
type term struct{ name, goNames, cNames string }

func glossary(t *testing.T) map[string]term {
	t.Helper()
	all := make(map[string]term)
	text := pages(t)[filepath.Join(top, "docs/glossary.md")]
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) < 4 || !strings.HasPrefix(line, "| <a ") {
			continue
		}
		_, name, _ := strings.Cut(cells[0], "</a>")
		for name := range strings.SplitSeq(name, ", ") {
			if _, twice := all[name]; twice {
				t.Errorf("%s stands there twice", name)
			}
			all[name] = term{name, cells[2], cells[3]}
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d terms", len(all))
	}
	return all
}

// TestGlossaryPages checks that the page of each row has all its terms, in both languages, and that a term
// whose name is the heading of a section leads to that page.
func TestGlossaryPages(t *testing.T) {
	for _, folder := range []string{"docs", "docs/zh"} {
		sections := make(map[string]string) // headings' pages
		for file, page := range pages(t) {
			if name, ok := strings.CutPrefix(file, filepath.Join(top, folder)+"/"); ok && strings.HasPrefix(name, "concepts/") {
				for _, m := range regexp.MustCompile(`(?m)^## (.*)`).FindAllStringSubmatch(page, -1) {
					for _, word := range regexp.MustCompile(` and |, |与 ?|、`).Split(m[1], -1) {
						sections[strings.TrimSuffix(word, "s")] = name
					}
				}
			}
		}
		text, rows := pages(t)[filepath.Join(top, folder, "glossary.md")], 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "| <a ") {
				continue
			}
			rows++
			cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ")
			link := regexp.MustCompile(`\]\((concepts/\w+\.md)\)$`).FindStringSubmatch(cells[len(cells)-1])
			if link == nil {
				t.Errorf("no page: %s", line)
				continue
			}
			page, err := os.ReadFile(filepath.Join(top, folder, link[1]))
			if err != nil {
				t.Error(err)
			}
			_, names, _ := strings.Cut(cells[0], "</a>")
			for _, name := range regexp.MustCompile(`, |、`).Split(names, -1) {
				if section := sections[name]; section != "" && section != link[1] {
					t.Errorf("%s: %q is explained in %s, not in %s", folder, name, section, link[1])
				}
				chinese, english, both := strings.Cut(strings.TrimSuffix(name, ")"), " (")
				if has(string(page), chinese) || both && has(string(page), english) {
					continue
				}
				t.Errorf("%s/%s has no %q", folder, link[1], name)
			}
		}
		if rows < 50 {
			t.Errorf("%s: %d terms", folder, rows)
		}
	}
}

// TestCitations checks that no page cites a whole chapter of IBA: a reader can't look that up.
func TestCitations(t *testing.T) {
	n := 0
	for file, text := range pages(t) {
		for _, m := range regexp.MustCompile(`IBA(?: chapter)? (\d+(?:\.\d+)*)|IBA 第 ?\d+ ?章`).FindAllStringSubmatch(text, -1) {
			if n++; !strings.Contains(m[1], ".") {
				t.Errorf("%s cites %q", file, m[0])
			}
		}
	}
	if n < 100 {
		t.Errorf("%d citations", n)
	}
}

// has reports whether a page has a term, as a word or the beginning of one.
func has(page, term string) bool {
	return regexp.MustCompile(`(?i)(^|[^a-z])` + regexp.QuoteMeta(term)).MatchString(page)
}

// acronym is a word of capitals. Every one that the pages for learners use is a term of the
// glossary, or one of general, which readers know from elsewhere, or an errno. The words with
// small letters among them stand in terms, and are looked for on all pages.
var (
	acronym  = regexp.MustCompile(`\b[A-Z][A-Z0-9]+s?\b`)
	learners = regexp.MustCompile(`docs/(zh/)?(concepts/.*|first-hour|second-hour|doctor|patterns|README)\.md$|README\.zh\.md$|\.\./README\.md$`)
	errno    = regexp.MustCompile(`^E[A-Z]{3,}$`)
	general  = words("ARP CI CPU CRC CRCs ARCHITECTURE CHANGELOG CONTRIBUTING README DEV ACTIVE A10 A11 A16 A17 A19 NVIDIA DCBX GB GPU HTTP ID IDs IP IPv4 IPv6 JSON KB MAC NFS NIC OK PCI QEMU RAM RFC SVG TCP UDP VLAN IEEE CA SIGTERM MIT ABI POSIX GC URL ND SYN FIN RST UNREACHABLE DISCONNECTED REJECTED RIP OSPF BGP IGMP HPCC TIMELY NSDI SIGCOMM AI")
	terms    = strings.Fields(`iWARP lkey one-sided P_Key Q_Key rkey RoCE rxe siw STag two-sided verbs eRDMA`)
)

func words(text string) map[string]bool {
	all := make(map[string]bool)
	for _, w := range strings.Fields(text) {
		all[w] = true
	}
	return all
}

// TestGlossaryIsWhole checks that the glossary has the terms that pages use.
func TestGlossaryIsWhole(t *testing.T) {
	known := glossary(t)
	used := make(map[string][]string)
	for file, page := range pages(t) {
		page = code.ReplaceAllString(page, "")
		var found []string
		for _, word := range terms {
			if regexp.MustCompile(`\b` + word + `s?\b`).MatchString(page) {
				found = append(found, word)
			}
		}
		if learners.MatchString(file) && filepath.Base(file) != "names.md" { // which explains its names itself
			found = append(found, acronym.FindAllString(page, -1)...)
		}
		for _, word := range found {
			used[word] = append(used[word], file)
		}
	}
	for word, files := range used {
		one := strings.TrimSuffix(word, "s")
		_, explained := known[word]
		if _, ok := known[one]; !ok && !explained && !general[one] && !errno.MatchString(word) {
			t.Errorf("%s is used and not explained: %v", word, slices.Compact(files))
		}
	}
	if len(used) < 60 {
		t.Errorf("%d words", len(used))
	}
}

// TestGlossaryNames checks that the Go names of the glossary exist.
func TestGlossaryNames(t *testing.T) {
	declared := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test() || strings.Contains(s.pkg, "internal") {
			continue
		}
		for name, object := range s.syntax.Scope.Objects {
			declared[s.syntax.Name.Name+"."+name] = true
			if spec, ok := object.Decl.(*ast.TypeSpec); ok {
				if fields, ok := spec.Type.(*ast.StructType); ok {
					addFields(declared, s.syntax.Name.Name+"."+name, fields)
				}
			}
		}
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
					if of, ok := star.X.(*ast.Ident); ok {
						declared[s.syntax.Name.Name+"."+of.Name+"."+f.Name.Name] = true
					}
				}
			}
		}
	}
	names := 0
	for _, one := range glossary(t) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(one.goNames, -1) {
			names++
			if !declared[m[1]] {
				t.Errorf("%s: there is no %s", one.name, m[1])
			}
		}
	}
	if names < 40 {
		t.Errorf("%d names", names)
	}
}

func addFields(declared map[string]bool, of string, s *ast.StructType) {
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			declared[of+"."+name.Name] = true
		}
	}
}
