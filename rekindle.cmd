@echo off
rem Rekindle from a clone: sets up its own environment on first use, then starts at once.
setlocal
set "HERE=%~dp0"
set "VPY=%HERE%.venv\Scripts\python.exe"
if not exist "%VPY%" goto setup
fc /b "%HERE%pyproject.toml" "%HERE%.venv\ready.use" >nul 2>nul
if errorlevel 1 goto setup
goto start
:setup
set "NEW=import sys; sys.exit(sys.version_info < (3, 11))"
set "PY="
call py -3 -c "%NEW%" >nul 2>nul
if not errorlevel 1 set "PY=py -3"
if defined PY goto found
call python -c "%NEW%" >nul 2>nul
if not errorlevel 1 set "PY=python"
if defined PY goto found
echo rekindle: no Python 3.11 or newer found. Run: winget install Python.Python.3.13 1>&2
exit /b 2
:found
call %PY% "%HERE%tools\bootstrap.py"
if errorlevel 1 exit /b 2
copy /y "%HERE%pyproject.toml" "%HERE%.venv\ready.use" >nul
:start
rem What is printed for pasting starts with the same words: they work in cmd and in PowerShell.
if /i "%CD%\"=="%HERE%" set "REKINDLE_CALLED_AS=.\rekindle"
"%VPY%" -m rekindle %*
exit /b %ERRORLEVEL%
