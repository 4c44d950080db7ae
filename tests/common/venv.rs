//! Virtual environments of Python for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A command in an environment without gpuzip's and Python's variables.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if ["GPUZIP_", "PYTHON", "VIRTUAL_ENV"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// `pip install` of an environment's Python.
pub fn pip(python: &Path) -> Command {
    let mut pip = command(python);
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]);
    pip
}

/// Makes an environment with these packages in an empty folder, without compiling any. Returns the
/// environment's Python, or the reason why there is none.
pub fn make(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let works = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
            Err(text.lines().last().unwrap_or_default().to_string())
        }
        Err(e) => Err(e.to_string()),
    };
    works(command(Path::new("python3")).args(["-m", "venv"]).arg(folder))
        .map_err(|e| format!("python3 makes no virtual environment: {e}"))?;
    let python = folder.join("bin/python");
    works(pip(&python).args(["--only-binary", ":all:"]).args(packages))
        .map_err(|e| format!("pip cannot install {}: {e}", packages.join(" and ")))?;
    Ok(python)
}
