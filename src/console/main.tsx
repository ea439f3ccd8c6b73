import { render } from 'preact';
import { Frame } from './frame.tsx';
import { takeToken } from './route.ts';
import { endWhenIdle, resume, signIn } from './session.ts';
import './style.css';

const place = document.getElementById('console');
if (place !== null) render(<Frame />, place);
endWhenIdle();
const given = takeToken();
if (given === undefined || (await signIn(given)) !== undefined) await resume();
