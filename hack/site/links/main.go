// Command links checks a built site: each link to a page of the site leads to an existing file and heading, and no page
// loads anything from another site.
//
//	go run ./hack/site/links -root dist/site -at https://supercargo.dev/
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	root := flag.String("root", "", "`folder` of the site")
	at := flag.String("at", "/", "`URL` under which it is served")
	flag.Parse()
	found, err := check(*root, *at)
	if err == nil && found < 1000 {
		err = fmt.Errorf("found only %d links", found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// site contains the pages and files of a site.
type site struct {
	base  *url.URL
	pages map[string]*page // by path below the base, such as docs/agent/
	files map[string]bool
}

// page contains the anchors and links of an HTML file, and the URLs that it loads.
type page struct {
	anchors map[string]bool
	links   []string
	loads   []string
}

// check returns the number of links of the site in folder root, and an error that lists the dead links and the URLs that
// pages load from other sites.
func check(root, at string) (found int, err error) {
	base, err := url.Parse(at)
	if err != nil {
		return 0, err
	}
	s := &site{base: base, pages: map[string]*page{}, files: map[string]bool{}}
	if err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return s.read(file, filepath.ToSlash(name))
	}); err != nil {
		return 0, err
	}
	var errs []error
	for name, p := range s.pages {
		for _, link := range p.links {
			found++
			if err := s.follow(name, link); err != nil {
				errs = append(errs, fmt.Errorf("%s links to %s: %w", name, link, err))
			}
		}
		for _, load := range p.loads {
			if to, err := url.Parse(load); err != nil || to.Host != "" && to.Host != s.base.Host {
				errs = append(errs, fmt.Errorf("%s loads %s from elsewhere", name, load))
			}
		}
	}
	return found, errors.Join(errs...)
}

// read records a file and, if it is a page, its anchors, links and loads.
func (s *site) read(file, name string) error {
	s.files[name] = true
	if path.Base(name) != "index.html" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := html.Parse(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	p := &page{anchors: map[string]bool{}}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				p.anchors[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				p.links = append(p.links, a.Val)
			case a.Key == "src" || a.Key == "href" && n.Data == "link":
				p.links, p.loads = append(p.links, a.Val), append(p.loads, a.Val)
			}
		}
	}
	s.pages[strings.TrimSuffix(name, "index.html")] = p
	return nil
}

// follow returns an error if a link leads to a page or heading that the site does not have. It ignores links to other
// sites.
func (s *site) follow(from, link string) error {
	to, err := s.base.Parse(path.Join(s.base.Path, from) + "/")
	if err == nil {
		to, err = to.Parse(link)
	}
	if err != nil {
		return err
	}
	if to.Host != s.base.Host || to.Scheme != s.base.Scheme {
		return nil
	}
	name, inside := strings.CutPrefix(to.Path, s.base.Path)
	p := s.pages[name]
	switch {
	case !inside || p == nil && !s.files[name]:
		return errors.New("there is no such page")
	case to.Fragment != "" && p != nil && !p.anchors[to.Fragment]:
		return errors.New("it has no such heading")
	}
	return nil
}
