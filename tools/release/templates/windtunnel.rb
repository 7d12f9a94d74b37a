# Homebrew formula of windtunnel, for a tap of its own: brew install windtunnel/tap/windtunnel
class Windtunnel < Formula
  desc "Wind tunnel for Kubernetes control planes"
  homepage "https://github.com/windtunnel/windtunnel"
  version "{{.Version}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "{{.URL "darwin" "arm64"}}"
      sha256 "{{.Sum "darwin" "arm64"}}"
    end
    on_intel do
      url "{{.URL "darwin" "amd64"}}"
      sha256 "{{.Sum "darwin" "amd64"}}"
    end
  end

  on_linux do
    on_arm do
      url "{{.URL "linux" "arm64"}}"
      sha256 "{{.Sum "linux" "arm64"}}"
    end
    on_intel do
      url "{{.URL "linux" "amd64"}}"
      sha256 "{{.Sum "linux" "amd64"}}"
    end
  end

  def install
    bin.install "windtunnel"
    bin.install "kube-plane" if File.exist? "kube-plane"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/windtunnel.bash" => "windtunnel"
    zsh_completion.install "completions/windtunnel.zsh" => "_windtunnel"
    fish_completion.install "completions/windtunnel.fish"
    doc.install "LICENSE", "THIRD_PARTY_LICENSES"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/windtunnel --version")
  end
end
